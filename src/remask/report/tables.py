"""Figures -> the tables of each study. What is not there leaves no row and no column.

Tables are made from figures alone, so that the terminal, JSON, files and the results page cannot
say different things.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from remask.analysis.diagnosis import DIFFICULTIES
from remask.analysis.figures import CURVES, DEFAULTS, MAIN, TRIPS, Figure
from remask.analysis.scaling import SHOWN
from remask.report.results_tables import counted, names_under, order_of
from remask.report.table import Table

Figures = Mapping[str, Figure]
Columns = Mapping[str, str]  # head -> the end of a figure's name

LABELS = {
    "roundtrips": "round trips, uniform", "optimized": "round trips, optimized",
    "baselines": "baselines, combined", "agreement_same_cost": "agreement, same cost",
    "confidence_canvas": "confidence, canvas", "self_evaluation": "self-evaluation",
    "editor": "editor's agreement",
}  # fmt: skip
METHODS = (
    "roundtrips", "optimized", "baselines", "confidence", "agreement_same_cost", "vote",
    "agreement", "self_evaluation", "editor",
)  # fmt: skip
CORRECTIONS = (
    "standard", "vote3", "vote10", "best_of_3_confidence", "best_of_10_confidence", "best_of_3",
    "best_of_10", "mgrs",
)  # fmt: skip
SETTINGS = tuple(
    dict.fromkeys(x.split("/")[0] for x in (*CURVES.values(), *DEFAULTS, f"trips/{TRIPS[0]}"))
)
MIXTURES = ("alone", "composite", "without")
RANKED = {"AUROC": "auroc", "AUPR": "aupr", "forwards": "forwards", "absent": "absent"}
CALIBRATED = {"ECE": "ece", "Brier": "brier", "AURC": "aurc", "PRR": "prr"}
SELECTED = {
    **{f"right at {x} % coverage": f"accuracy_at_coverage_{x}" for x in (50, 80, 90)},
    "mean, right": "mean_right", "mean, wrong": "mean_wrong",
    "precision at 0.75": "precision_at_0.75", "recall at 0.75": "recall_at_0.75",
}  # fmt: skip
RATES = ("contraction", "bound_", "residual_")
GAP = "roundtrips_minus_consistency"


def diagnosis_tables(found: Figures) -> list[Table]:
    """Return which score tells right from wrong."""
    studies = names_under(found, "diagnosis")
    every = {"base rate": "base_rate"} | {_label(m): f"{m}/auroc" for m in METHODS}
    gaps = {
        "round trips - self-consistency": f"{GAP}/auroc",
        "round trips - agreement, same cost": "roundtrips_minus_agreement_same_cost/auroc",
        "round trips - confidence": "roundtrips_minus_confidence/auroc",
        "round trips - self-evaluation": "roundtrips_minus_self_evaluation/auroc",
        "optimized - round trips": "optimized_minus_roundtrips/auroc",
        "optimized - self-consistency": "optimized_minus_consistency/auroc",
        "optimized - baselines": "optimized_minus_baselines/auroc",
    }
    hard = {f"{x} problems": f"{GAP}/{x}/auroc" for x in DIFFICULTIES}
    tables = [
        _table("auroc", "AUROC of every score", found,
               _grid(found, "diagnosis", studies, every, count="base_rate")),
        _table("gaps", "AUROC, paired differences", found,
               _grid(found, "diagnosis", studies, gaps)),
        _table("difficulty", "Round trips above self-consistency, by difficulty", found,
               _grid(found, "diagnosis", studies, hard), note=_thirds(found, studies)),
        _carried(found),
    ]  # fmt: skip
    for study in studies:
        under = f"diagnosis/{study}"
        methods = [m for m in names_under(found, under) if f"{under}/{m}/forwards" in found]
        whole = [m for m in methods if "." not in m]
        for name, title, heads, rows in (
            ("ranking", "AUROC, AUPR and cost", RANKED, methods),
            ("calibration", "calibration and selection", CALIBRATED, whole),
            ("threshold", "coverage and the threshold 0.75", SELECTED, whole),
        ):
            grid = _grid(found, under, rows, heads, first="score", count="auroc")
            note = _base_rate(found, study) if name == "ranking" else ""
            title = f"{study}: {title}"
            tables.append(_table(f"{name}-{study}", title, found, grid, note=note, is_long=True))
    return _filled(tables)


def correction_tables(found: Figures) -> list[Table]:
    """Return what a pool of samples gains."""
    studies = names_under(found, "correction")
    right = {m: f"{m}/accuracy" for m in CORRECTIONS}
    gains = {
        f"above {rival}": f"mgrs_minus_{rival}/accuracy" for rival in CORRECTIONS if rival != "mgrs"
    }
    drawn = {"all problems": "mgrs/n_avg"} | {x: f"mgrs/{x}/n_avg" for x in DIFFICULTIES}
    drawn |= {"threshold": "mgrs/threshold"}
    tables = [
        _table("accuracy", "Accuracy", found,
               _grid(found, "correction", studies, right, count="standard/accuracy")),
        _table("gains", "Accuracy of mgrs, paired differences", found,
               _grid(found, "correction", studies, gains)),
        _table("samples", "Samples that mgrs draws, by difficulty", found,
               _grid(found, "correction", studies, drawn)),
    ]  # fmt: skip
    heads = {"accuracy": "accuracy", "n_avg": "n_avg", "eff": "eff", "forwards": "forwards"}
    for study in studies:
        methods = [
            m
            for m in names_under(found, f"correction/{study}")
            if f"correction/{study}/{m}/n_avg" in found
        ]
        grid = _grid(found, f"correction/{study}", methods, heads, first="method", count="accuracy")
        tables.append(_table(f"methods-{study}", f"{study}: every method", found, grid,
                             note="Eff is points of accuracy per further sample.",
                             is_long=True))  # fmt: skip
        limits = names_under(found, f"curve/{study}/threshold")
        grid = _grid(found, f"curve/{study}/threshold", limits, heads, first="threshold")
        title = f"{study}: mgrs at other thresholds"
        tables.append(_table(f"thresholds-{study}", title, found, grid, is_long=True))
    return _filled(tables)


def ablation_tables(found: Figures) -> list[Table]:
    """Return the settings of the round trips, then the mixtures of metrics."""
    studies = names_under(found, "ablation")
    heads = {
        "AUROC": "auroc", "AUPR": "aupr", "above the default": "above_default",
        "forwards": "forwards", "of these to verify": "verify_forwards", "seeds": "seeds",
    }  # fmt: skip
    tables = []
    for study in studies:
        for setting in SETTINGS:
            under = f"ablation/{study}/{setting}"
            values = sorted(names_under(found, under), key=order_of)
            grid = _grid(found, under, values, heads, first=setting, count="auroc")
            tables.append(_table(f"{setting}-{study}", f"{study}: {setting}", found, grid))
    mixtures = list(dict.fromkeys(name for study in studies for name in _mixtures(found, study)))
    head = ["metrics", *studies]
    rows = [[m, *(_known(found, f"ablation/{s}/{m}/auroc") for s in studies)] for m in mixtures]
    tables.append(_table("metrics", "AUROC of every mixture of metrics", found, (head, rows)))
    for study in studies:
        heads = {"AUROC": "auroc", "AUPR": "aupr", "above uniform": "above_uniform"}
        under = f"ablation/{study}"
        grid = _grid(found, under, _mixtures(found, study), heads, first="metrics")
        title = f"{study}: mixtures of metrics"
        note = "Each costs what the round trips cost: their metrics are read from the same trips."
        tables.append(_table(f"metrics-{study}", title, found, grid, note=note, is_long=True))
    tables.append(_weights(found, studies))
    return _filled(tables)


def geometry_tables(found: Figures) -> list[Table]:
    """Return density and quality, and the contraction where it was measured."""
    parts = {
        "plane": ("Density against quality", {
            "Spearman": "spearman", "shuffled": "spearman_null", "R^2": "r2",
            "Spearman with confidence": "spearman_confidence",
        }),
        "separation": ("Density of right and of wrong answers", {
            "density, right / wrong": "density_ratio", "boundary": "boundary",
            "chi-square": "chi2", "Cramer's V": "cramers_v",
        }),
        "zones": ("The two corners against independence", {
            "dense, low quality": "hallucination_zone",
            "expected": "hallucination_zone_expected",
            "sparse, high quality": "sparse_zone", "expected there": "sparse_zone_expected",
        }),
    }  # fmt: skip
    tables = []
    for name, (title, heads) in parts.items():
        rows = [
            [study, *(_known(found, f"{_place(study)}/{end}") for end in heads.values())]
            for study in [MAIN, *names_under(found, "geometry")]
        ]
        kept = [row for row in rows if any(row[1:])]
        tables.append(_table(name, title, found, (["study", *heads], kept)))
    rates = [name for name in found if name.split("/")[-1].startswith(RATES)]
    rows = [[name.removeprefix("geometry/"), name, found[name].unit] for name in rates]
    tables.append(_table("contraction", "Contraction and Proposition 4", found,
                         (["figure", "value", "what"], rows)))  # fmt: skip
    return _filled(tables)


def spurious_tables(found: Figures) -> list[Table]:
    """Return how flaws in right answers are found: the model's own, then injected ones."""
    files = [n for n in names_under(found, "spurious") if f"spurious/{n}/flawed" in found]
    tell = {
        "flawed": "flawed", "AUROC": "auroc", "AUROC, confidence": "auroc_confidence",
        "above confidence": "above_confidence", "below the threshold": "below",
        "precision": "precision", "recall": "recall",
    }  # fmt: skip
    means = {
        "score, flawed": "score_flawed", "score, sound": "score_sound",
        "confidence, flawed": "confidence_flawed", "confidence, sound": "confidence_sound",
    }  # fmt: skip
    under = "spurious/injected"
    kinds = [
        f"{s}/{k}" for s in names_under(found, under) for k in names_under(found, f"{under}/{s}")
    ]
    caught = {
        "AUROC": "auroc", "AUROC, confidence": "auroc_confidence",
        "scored below its original": "lowered", "recall": "recall",
        "false alarms": "false_alarms",
    }  # fmt: skip
    return _filled([
        _table("own", "Right answers with a wrong step of the model's own", found,
               _grid(found, "spurious", files, tell, first="records", count="flawed")),
        _table("own-means", "Their mean scores", found,
               _grid(found, "spurious", files, means, first="records"), is_long=True),
        _table("injected", "Flaws written into right solutions", found,
               _grid(found, under, kinds, caught, first="flaw", count="lowered")),
        _table("injected-means", "Their mean scores, and their originals'", found,
               _grid(found, under, kinds, means, first="flaw"), is_long=True),
    ])  # fmt: skip


def cost_tables(found: Figures) -> list[Table]:
    """Return the formulas against what was counted."""
    heads = {"formula": "formula", "counted": "counted", "counted / formula": "ratio"}
    tables = []
    for study in names_under(found, "cost"):
        under = f"cost/{study}"
        grid = _grid(found, under, names_under(found, under), heads, first="cost")
        tables.append(_table(study, f"{study}: forwards per problem", found, grid, is_long=True))
    studies = names_under(found, "cost")
    every = {what: f"{what}/counted" for what in _any_of(found, "cost", studies)}
    grid = _grid(found, "cost", studies, every)
    return _filled([_table("counted", "Counted forwards per problem", found, grid), *tables])


def scaling_tables(found: Figures) -> list[Table]:
    """Return the models beside one another, study by study."""
    models = names_under(found, "scaling")
    studies = _any_of(found, "scaling", models)
    heads = {"accuracy": "accuracy"}
    for method in SHOWN:
        heads |= {f"AUROC, {method}": f"{method}/auroc"}
    heads |= {"AUPR, roundtrips": "roundtrips/aupr"}
    return _filled(
        _table(study, f"{study}: the models", found, _models(found, models, study, heads))
        for study in studies
    )


Grid = tuple[Sequence[str], Sequence[Sequence[str]]]


def _models(found: Figures, models: Sequence[str], study: str, heads: Columns) -> Grid:
    rows = [
        [model, *(_known(found, f"scaling/{model}/{study}/{end}") for end in heads.values())]
        for model in models
    ]
    return ["model", *heads], [row for row in rows if any(row[1:])]


def _grid(
    found: Figures,
    under: str,
    names: Iterable[str],
    heads: Columns,
    *,
    first: str = "study",
    count: str = "",
) -> Grid:
    """Return a row per name; `n` is the number of answers that the figure `count` is of."""
    rows = []
    for name in names:
        cells = [_known(found, f"{under}/{name}/{end}") for end in heads.values()]
        if any(cells):
            number = counted(found, f"{under}/{name}/{count}") if count else ""
            rows.append([_label(name), number, *cells])
    return [first, "n", *heads], rows


def _table(
    name: str, title: str, found: Figures, grid: Grid, *, note: str = "", is_long: bool = False
) -> Table:
    """Return a table without the columns that are empty throughout."""
    heads, rows = grid
    kept = [k for k in range(len(heads)) if k == 0 or any(row[k] for row in rows)]
    named = {word: found[word] for row in rows for word in row if word in found}
    return Table(
        name=name,
        title=title,
        heads=[heads[k] for k in kept],
        rows=[[row[k] for k in kept] for row in rows],
        figures=named,
        note=note,
        is_long=is_long,
    )


def _filled(tables: Iterable[Table]) -> list[Table]:
    return [table for table in tables if table.rows]


def _any_of(found: Figures, under: str, names: Iterable[str], then: str = "") -> list[str]:
    """Return the next words that any of the names has."""
    words = (word for name in names for word in names_under(found, f"{under}/{name}{then}"))
    return list(dict.fromkeys(words))


def _known(found: Figures, name: str) -> str:
    """Return the name of a figure; where a score is absent of every answer, of how many."""
    if name in found:
        return name
    head, _, end = name.rpartition("/")
    return f"{head}/absent" if end == "auroc" and f"{head}/absent" in found else ""


def _label(name: str) -> str:
    return LABELS.get(name, name)


def _carried(found: Figures) -> Table:
    studies = [name for name in names_under(found, "carried") if name != "threshold"]
    heads = {x: x for x in ("coverage", "precision", "recall")}
    limit = found.get("carried/threshold")
    note = "" if limit is None else f"The threshold is {limit.value:g} everywhere."
    grid = _grid(found, "carried", studies, heads)
    return _table("carried", "One threshold carried over all studies", found, grid, note=note)


def _thirds(found: Figures, studies: Sequence[str]) -> str:
    """Return which problems are hard, middle and easy, for each study."""
    told = []
    for study in studies:
        figures = {x: found.get(f"diagnosis/{study}/{GAP}/{x}/auroc") for x in DIFFICULTIES}
        ends = [f"{x} {f.unit.partition('; ')[2].removesuffix(' of others right')} (n = {f.n})"
                for x, f in figures.items() if f is not None]  # fmt: skip
        told += [f"{study}: {', '.join(ends)}"] if ends else []
    return f"By the share of right answers among the other samples. {'; '.join(told)}."


def _base_rate(found: Figures, study: str) -> str:
    figure = found.get(f"diagnosis/{study}/base_rate")
    return "" if figure is None else f"Base rate of AUPR {figure.value:.3f}, n = {figure.n}."


def _mixtures(found: Figures, study: str) -> Iterator[str]:
    for kind in MIXTURES:
        for name in names_under(found, f"ablation/{study}/{kind}"):
            yield f"{kind}/{name}"


def _weights(found: Figures, studies: Sequence[str]) -> Table:
    """Return the optimized weights of each study."""
    place = "composite/optimized/weight"
    metrics = _any_of(found, "ablation", studies, f"/{place}")
    grid = _grid(found, "ablation", studies, {m: f"{place}/{m}" for m in metrics})
    return _table("weights", "Optimized weights", found, grid)


def _place(study: str) -> str:
    return "geometry" if study == MAIN else f"geometry/{study}"
