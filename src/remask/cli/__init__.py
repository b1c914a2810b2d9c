"""The command line: parses, calls, prints. Nothing is decided here.

    app                the commands by name, and `main`
    flags, settings    flags made from settings classes, and the settings that only commands have
    answers            solve, verify, score
    records_commands   collect, fit, certify, calibrate, report
    models             demo, models, doctor
    studies            study
    align              align
    serve              serve

The module of a command is imported when the command is named.
"""

from remask.cli.app import app, main

__all__ = ["app", "main"]
