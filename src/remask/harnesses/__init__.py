"""Programs of others in which a model of remask answers, and its answers are scored.

`lm_eval` is for lm-evaluation-harness and `inspect_ai` for Inspect; each imports the package that
it is for. What is here uses the public names of remask, as a program of your own would.
"""
