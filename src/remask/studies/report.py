"""Figures -> Markdown tables, each number with the marker that ties it to its figure.

Tables are made from the figures alone, so that a page says nothing but what docs/figures.json says.
"""

from collections.abc import Iterator, Mapping, Sequence

from remask.studies.figures import Figure


def markdown(found: Mapping[str, Figure]) -> str:
    """Return every table that the figures fill."""
    parts = [_overview(found)]
    for study in _names(found, "diagnosis"):
        parts += [_diagnosis_table(found, study), _correction_table(found, study)]
        parts.append(_curve_table(found, f"curve/{study}", study, "threshold"))
    for setting in ("mask_ratio", "rebuild_steps", "trips", "mask_design", "rebuild_temperature"):
        parts.append(_curve_table(found, "curve/wordmath-hard", "wordmath-hard", setting))
    parts += [_rest(found, "process", "Right answers: right steps or wrong?")]
    parts += [_rest(found, "rebatched", "The same answers in other batches")]
    return "\n\n".join(part for part in parts if part) + "\n"


def _overview(found: Mapping[str, Figure]) -> str:
    shown = ("roundtrips", "confidence", "confidence_canvas", "vote", "agreement")
    rows = []
    for study in _names(found, "diagnosis"):
        names = [f"accuracy/{study}", f"diagnosis/{study}/base_rate"]
        names += [f"diagnosis/{study}/{method}/auroc" for method in shown]
        names.append(f"diagnosis/{study}/roundtrips_minus_consistency/auroc")
        rows.append([study, *(_quote(found, name) for name in names)])
    heads = ["study", "greedy accuracy", "base rate", *shown, "roundtrips - self-consistency"]
    return _table("Diagnosis, AUROC", heads, rows)


def _diagnosis_table(found: Mapping[str, Figure], study: str) -> str:
    columns = ("auroc", "aupr", "forwards")
    names = _names(found, f"diagnosis/{study}")
    methods = [name for name in names if f"diagnosis/{study}/{name}/forwards" in found]
    rows = []
    for name in methods:
        told = found.get(f"diagnosis/{study}/{name}/auroc")
        cells = [_quote(found, f"diagnosis/{study}/{name}/{column}") for column in columns]
        rows.append([name, *cells, "" if told is None else str(told.n)])
    return _table(f"Diagnosis: {study}", ["score", *columns, "n"], rows)


def _correction_table(found: Mapping[str, Figure], study: str) -> str:
    columns = ("accuracy", "n_avg", "eff", "forwards")
    rows = [
        [name, *(_quote(found, f"correction/{study}/{name}/{column}") for column in columns)]
        for name in _names(found, f"correction/{study}")
    ]
    threshold = _quote(found, f"correction/{study}/mgrs/threshold")
    return _table(f"Correction: {study} (mgrs above {threshold})", ["method", *columns], rows)


def _curve_table(found: Mapping[str, Figure], under: str, study: str, setting: str) -> str:
    columns = ["accuracy", "n_avg", "forwards"] if setting == "threshold" else ["auroc", "forwards"]
    values = sorted(_names(found, f"{under}/{setting}"), key=_order)
    rows = [
        [value, *(_quote(found, f"{under}/{setting}/{value}/{column}") for column in columns)]
        for value in values
    ]
    return _table(f"{setting}: {study}", [setting, *columns], rows)


def _rest(found: Mapping[str, Figure], under: str, title: str) -> str:
    rows = [
        [name, figure.unit, _quote(found, name), str(figure.n or "")]
        for name, figure in found.items()
        if name.startswith(f"{under}/")
    ]
    return _table(title, ["figure", "unit", "value", "n"], rows)


def _names(found: Mapping[str, Figure], under: str) -> list[str]:
    """Return the next words of the names that begin so, in the order of the figures."""
    prefix = f"{under}/"
    return list(
        dict.fromkeys(n[len(prefix) :].split("/")[0] for n in found if n.startswith(prefix))
    )


def _order(value: str) -> tuple[float, str]:
    try:
        return float(value), ""
    except ValueError:
        return 0.0, value


def _quote(found: Mapping[str, Figure], name: str) -> str:
    """Return a figure as a page shows it: rounded, marked, with its interval; empty if absent."""
    if name not in found:
        return ""
    figure = found[name]
    shape, scale, end = _shape(figure.unit)
    shown = f"{scale * figure.value:{shape}}{end}<!--fig:{name}-->"
    if figure.low is None or figure.high is None or figure.low == figure.high:
        return shown
    return f"{shown} [{scale * figure.low:{shape}}, {scale * figure.high:{shape}}]"


def _shape(unit: str) -> tuple[str, int, str]:
    """Return how numbers of a unit are written: format, factor, what follows."""
    if unit == "share":
        return ".1f", 100, " %"
    if unit.startswith("AUROC above"):
        return "+.3f", 1, ""
    if unit.startswith(("AUROC", "AUPR")):
        return ".3f", 1, ""
    if unit.startswith("points"):
        return "+.2f", 1, ""
    return {"samples": ".2f", "forwards": ".0f"}.get(unit, "g"), 1, ""


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    return "\n".join([f"### {title}", "", *_lines(heads, rows)])


def _lines(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
