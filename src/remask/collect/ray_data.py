"""Answers scored by Ray Data: a class for `map_batches`, of which every actor holds a model.

    rows.map_batches(
        ScoreBatches, fn_constructor_kwargs={"model": "tiny"}, batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(size=2), num_gpus=1,
    )

The rows keep their columns and their order, and get those of `remask score` that are one value
each, with the same values. A row that cannot be scored says why; its neighbours are scored. Ray is
not imported here: it calls.
"""

from pathlib import Path
from typing import Any

from remask import api
from remask.collect.score_file import score_rows
from remask.collect.settings import ScoreSettings
from remask.decide.stages import StagedVerifier
from remask.denoisers.load import load
from remask.denoisers.native import dtype_of
from remask.errors import InputError, SettingsError
from remask.extension import resolve
from remask.records.parquet import REASON, SCORER, STAGE, RowTable
from remask.values import ROUNDTRIPS
from remask.verifier.origin import canvas_length, read_fitted

# Columns that are added, and the name of their type in Arrow.
ADDED_BY_RAY = {
    "remask_score": "float64", "remask_stderr": "float64", "remask_forwards": "int64",
    "remask_error": "string", SCORER: "string",
}  # fmt: skip
ADDED_BY_FIT = dict.fromkeys((STAGE, REASON), "string")  # where a verifier was fitted


class ScoreBatches:
    """Scores the answers of a batch."""

    def __init__(
        self,
        model: str,
        *,
        scorer: str = "verifier",
        kind: str = "number",
        fitted: str | Path | None = None,
        max_forwards: int | None = None,
        prompt_column: str = "prompt",
        answer_column: str = "answer",
        seed: int = 0,
        device: str = "auto",
        dtype: str = "auto",
        weights: str = "full",
        preset: str = "",
    ) -> None:
        """Load the model, once for an actor.

        Args:
            model: tiny, a folder, a hub id or module:name; every node needs it by this name.
            scorer: what scores the answers.
            kind: how to read their final result.
            fitted: file of a verifier that `remask fit` wrote; none: label-free.
            max_forwards: of the verifier, per answer.
            prompt_column: column with the question.
            answer_column: column with the answer.
            seed: of every draw.
            device: where the model is; the GPU that Ray gives an actor by default.
            dtype: its number format.
            weights: int8, nf4 or fp8 pack them into fewer bits.
            preset: decides how long the canvas of an answer is.
        """
        api.reader(kind)
        resolve("scorer", scorer, api.SCORERS)
        self.fitted = None if fitted is None else _read(Path(fitted), scorer)
        self.denoiser = load(model, device=device, dtype=dtype, preset=preset, weights=weights)
        self.added = ADDED_BY_RAY if self.fitted is None else ADDED_BY_RAY | ADDED_BY_FIT
        self.settings = ScoreSettings(
            model=model, dtype=dtype_of(self.denoiser) or dtype, preset=preset, scorer=scorer,
            kind=kind, length=canvas_length(self.fitted), max_forwards=max_forwards, seed=seed,
            prompt_column=prompt_column, answer_column=answer_column,
        )  # fmt: skip
        # A scorer that cannot be made of this model is refused now, and not with the first batch.
        score_rows(self.settings, self.fitted, self.denoiser, [])

    def __call__(self, batch: Any) -> Any:
        """Return a table of Arrow with the scores of its rows."""
        import pyarrow as pa

        if not isinstance(batch, pa.Table):
            raise InputError(
                f"a batch is a {type(batch).__name__}; give map_batches batch_format='pyarrow'."
            )
        names = (self.settings.prompt_column, self.settings.answer_column)
        missing = [name for name in names if name not in batch.column_names]
        taken = [name for name in self.added if name in batch.column_names]
        if missing:
            listed = ", ".join(batch.column_names)
            raise InputError(f"the rows have no column {missing[0]!r}; they have {listed}.")
        if taken:
            raise InputError(f"the rows have a column {taken[0]} already; rename or drop it.")
        rows = RowTable(arrow=batch).select((*names, "id"))
        added = score_rows(self.settings, self.fitted, self.denoiser, rows)
        added = [{SCORER: ROUNDTRIPS, **row} for row in added]  # which need not be named elsewhere
        for name, kind in self.added.items():
            column = pa.array([row[name] for row in added], kind)
            batch = batch.append_column(name, column)
        return batch


def _read(path: Path, scorer: str) -> StagedVerifier:
    """Return the verifier in a file, or raise where there is none, or none is asked for."""
    if scorer != "verifier":
        raise SettingsError(f"fitted belongs to scorer verifier, not to {scorer}; leave it out.")
    if not path.is_file():
        raise InputError(
            f"fitted is {path}, and there is no such file; give one that remask fit wrote, by a "
            "path that every node has."
        )
    return read_fitted(path)
