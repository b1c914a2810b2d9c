"""The command line: parses, calls, prints. Nothing is decided here.

    app        the application and its `main`
    promise    weights and certificates that an answer is judged by
    answers    solve, verify, score
    evidence   collect, fit, certify, calibrate, report
    models     train, demo, models, doctor
    studies    study
    align      align
    serve      serve

The order of the imports is that of the commands in `remask --help`.
"""

from remask.cli.answers import score, solve, verify
from remask.cli.app import app, main
from remask.cli.models import demo, examine, train
from remask.cli.records_commands import calibrate, certify, collect, fit
from remask.cli.studies import study

# isort: split
from remask.cli.align import align

# isort: split
from remask.cli.serve import serve

__all__ = [
    "align", "app", "calibrate", "certify", "collect", "demo", "examine", "fit", "main", "score",
    "serve", "solve", "study", "train", "verify",
]  # fmt: skip
