"""Trains the embedded model: a small LLaDA on generated problems.

    python -m studies.embedded --out OUT [--steps 27000] [--mix wordmath=0.4,choice=0.6] ...

Every field of `TrainSettings` is a flag. The log is printed as JSON Lines. The same command again
continues an interrupted run.
"""

import argparse
import json
import sys
from dataclasses import fields

from remask.errors import RemaskError, SettingsError
from remask.settings import validate
from studies.embedded.settings import TrainSettings
from studies.embedded.trainer import train


def settings_of(words: list[str]) -> TrainSettings:
    """Return the settings that the command line gives."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for field in fields(TrainSettings):
        parser.add_argument(f"--{field.name.replace('_', '-')}", default=argparse.SUPPRESS)
    texts = vars(parser.parse_args(words))
    return validate(TrainSettings, {name: _value(name, text) for name, text in texts.items()})


def _value(name: str, text: str) -> object:
    if name == "mix":
        try:
            return {task: float(share) for task, share in (p.split("=") for p in text.split(","))}
        except ValueError:
            raise SettingsError(
                f"mix must be shares such as wordmath=0.4,choice=0.6, got {text!r}."
            ) from None
    try:
        return int(text)
    except ValueError:
        return text


def main(words: list[str]) -> int:
    """Train, and return the exit code."""
    try:
        folder = train(settings_of(words), say=lambda line: print(line, flush=True))
    except RemaskError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps({"model": str(folder)}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
