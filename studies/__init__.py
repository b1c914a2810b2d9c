"""The evidence of this project: what each study collects, measures and writes on its page.

Run from the top of the repository: `python -m studies.paper.measure page`. It is not in the wheel.
"""
