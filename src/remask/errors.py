"""Every error remask raises on purpose.

    RemaskError
    ├── SettingsError (ValueError)     a setting has a value that cannot work
    ├── InputError (ValueError)        a prompt, an answer or a file row cannot be used
    ├── DenoiserError                  the model misbehaves: NaN logits, wrong shapes
    │   └── CheckpointError            a checkpoint is incomplete, corrupt or of another kind
    ├── ExtensionError                 code of the user's raised an exception: see its __cause__
    ├── TaskError                      a task or level that does not exist
    ├── RecordError                    a record file is broken or of another schema
    ├── WriteError (OSError)           a file cannot be written: the disk is full
    ├── EngineError                    a cluster cannot be reached, or its workers keep dying
    └── MissingExtra (ImportError)     an optional package is needed; says how to install it

Each message is one sentence that names the field, the value and the remedy: the command line
prints it as it is.
"""

import textwrap


class RemaskError(Exception):
    """Root of the tree: catch this to catch everything remask raises on purpose."""


class SettingsError(RemaskError, ValueError):
    """A setting has a value that cannot work."""


class InputError(RemaskError, ValueError):
    """A prompt, an answer or a row of a file cannot be used."""


class DenoiserError(RemaskError):
    """The model misbehaves."""


class CheckpointError(DenoiserError):
    """A checkpoint is incomplete, corrupt, or of a kind this package does not know."""


class ExtensionError(RemaskError):
    """A scorer, metric or task of the user raised an exception, which is the `__cause__`."""


class TaskError(RemaskError):
    """A task, a level or a split that does not exist."""


class RecordError(RemaskError):
    """A record file is broken or written under another schema."""


class WriteError(RemaskError, OSError):
    """A file cannot be written; what was there before is still there."""


class EngineError(RemaskError):
    """The workers of a cluster cannot be reached, or die again and again."""


class MissingExtra(RemaskError, ImportError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str, instead: str = "") -> None:
        remedy = f"pip install 'remask[{extra}]'" + (f", or {instead}" if instead else "")
        super().__init__(f"{package} is not installed; {remedy}.")
        self.details = (package, extra, instead)

    def __reduce__(self) -> tuple[type["MissingExtra"], tuple[str, str, str]]:
        """Come back whole from another process: the arguments, not the sentence, make the error."""
        return MissingExtra, self.details


def brief(reason: Exception | str) -> str:
    """Return the first sentence of somebody else's reason, whole words of it, for one of ours."""
    lines = str(getattr(reason, "strerror", None) or reason).strip().splitlines()
    return textwrap.shorten(lines[0].partition(". ")[0], 120, placeholder=" ...") if lines else ""
