"""The studies: one file each, and the table that names them.

    result = study("diagnosis", [Path("records")])
    for table in result.tables: ...

A study of one's own is handed over as an object, or named `module:name` on the command line; one
of the library is a file here and a row of `STUDIES`. `scaling` alone reads several places, one for
each model.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from remask.analysis.load_records import read_source
from remask.errors import RecordError
from remask.extension import resolve
from remask.report.studies.ablation import ABLATION
from remask.report.studies.base import Study, StudyResult
from remask.report.studies.correction import CORRECTION
from remask.report.studies.cost import COST
from remask.report.studies.diagnosis import DIAGNOSIS
from remask.report.studies.geometry import GEOMETRY
from remask.report.studies.scaling import NAME as SCALING
from remask.report.studies.scaling import scaling_study
from remask.report.studies.spurious import SPURIOUS
from remask.settings import checked

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        DIAGNOSIS, CORRECTION, ABLATION, GEOMETRY, SPURIOUS,
        COST,
    )
}  # fmt: skip
NAMES = (*STUDIES, SCALING)


@checked
def study(given: Annotated[str | Study, Any], places: Sequence[Path]) -> StudyResult:
    """Return one study of the records in a folder or file; `scaling` takes several."""
    if isinstance(given, str) and given == SCALING:
        return scaling_study(places)
    chosen = resolve("study", given, STUDIES, ("name", "run"))
    if len(places) != 1:
        raise RecordError(
            f"{chosen.name} reads one folder or file, not {len(places)}; scaling several."
        )
    return chosen.run(read_source(places[0]))
