"""Sources -> figures: what each study measures on the records it is given.

Names are those of docs/figures.json, with the study's own name where a folder of a whole study has
a task and level. What the records do not allow is left out; where nothing of a study is left, it
raises and says which command collects what it needs. Fitted weights are judged on other answers
than those that they were fitted on.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import ceil
from statistics import fmean

from remask.analysis.ablation import ablation, mixture_figures, optimized
from remask.analysis.correction import best_of, majority, mgrs
from remask.analysis.cost import Steps, cost, formula_figures
from remask.analysis.curves import curves, point_figures
from remask.analysis.diagnosis import (
    CONSISTENCY,
    DIFFICULTIES,
    ROUNDTRIPS,
    Method,
    better_consistency,
    columns,
    judge_fully,
    recorded,
    terciles,
)
from remask.analysis.figures import (
    BUDGET,
    STEPPED,
    WRONG_STEPS,
    Figures,
    carried_figures,
    correction_figures,
    diagnosis_figures,
    difficulty_figures,
    geometry_figures,
    measured,
    present,
)
from remask.analysis.load_records import Flawed, Source, Study
from remask.analysis.pool import (
    BY_POOL,
    RECORDED,
    Pool,
    Row,
    agreement,
    baseline_forwards,
    others_right,
    pool_size,
    pools,
)
from remask.analysis.scaling import model_figures, scaling
from remask.analysis.spurious import detection, detection_figures, flaw_figures, spurious
from remask.analysis.statistics import Interval, bootstrap, mean, paired_difference
from remask.decide.columns import Column, metric_columns
from remask.decide.provenance import Provenance
from remask.decide.weights import combine, fit_weights
from remask.errors import RecordError

OPTIMIZED, BASELINES = "optimized", "baselines"
SAME_COST = "agreement_same_cost"
JUDGE = "self_evaluation"
RIVALS = ("standard", "vote3", "vote10", "best_of_3_confidence", "best_of_3")
_GAP = "roundtrips_minus_consistency"
Columns = dict[str, list[float | None]]


def diagnosis(source: Source) -> Figures:
    """Return which score tells right from wrong: every method, the gaps, a carried threshold."""
    found: Figures = {}
    for study in source.studies:
        if any(_is_scored(row) for row in study.rows):
            told = diagnosis_figures(study.name, study.rows)
            if pool_size(pools(study.rows)) > 1:
                told |= difficulty_figures(study.name, study.rows)
            else:  # one sample agrees with itself: that is no vote
                told = {name: figure for name, figure in told.items() if _GAP not in name}
            found |= told | carried_figures(study.name, study.rows, source.chooser)
            found |= _fitted(study)
    return _needed(found, source, "round trips", "--scored 1")


def correction(source: Source) -> Figures:
    """Return what a pool of samples gains over the first one, and at what cost."""
    found: Figures = {}
    for study in source.studies:
        whole = pools(study.rows)
        if pool_size(whole) > 1 and all(_is_scored(row) for row in study.rows):
            found |= correction_figures(study.name, study.rows, study.threshold)
            found |= _samples_by_difficulty(study, whole) | _against_rivals(study, whole)
    return _needed(found, source, "pools with every sample scored", "--samples 10 --scored 10")


def ablation_study(source: Source) -> Figures:
    """Return every mixture of metrics, and the curves of the other settings."""
    found: Figures = {}
    for study in source.studies:
        if not study.is_changed and any("by_trip" in row for row in study.rows):
            told = ablation([study.rows, *study.further], study.validation)
            found |= mixture_figures(study.name, told)
    for name, seeds in source.settings.items():
        found |= point_figures(name, curves(seeds))
    return _told_apart(found, source)


def geometry(source: Source) -> Figures:
    """Return density and quality of the answers in the space of their metrics."""
    found: Figures = {}
    for study in source.studies:
        if any("by_trip" in row for row in study.rows):
            found |= geometry_figures(study.name, study.rows)
    return _told_apart(found, source)


def spurious_study(source: Source) -> Figures:
    """Return how well low scores find flaws in right answers, the model's own and injected ones."""
    told = {each.name: spurious(each.rows, each.threshold) for each in _labelled(source)}
    found: Figures = {}
    for name, row in told.items():
        found |= flaw_figures(f"spurious/{name}", row, name)
    candidates = [name for name in STEPPED if name in told] or list(told)
    enough = [name for name in candidates if told[name].flawed >= WRONG_STEPS]
    if candidates:
        chosen = enough[0] if enough else max(candidates, key=lambda name: told[name].flawed)
        found |= flaw_figures("spurious", told[chosen], chosen)
    for each in source.injected:
        for kind in detection(each.rows, each.threshold):
            found |= detection_figures(f"spurious/injected/{each.name}/{kind.kind}", kind)
    needed = (
        "scored right answers with labels on their steps, which only generated tasks have, nor "
        "injected flaws"
    )
    return _needed(found, source, needed, "--task wordmath --scored 1")


def cost_study(source: Source) -> Figures:
    """Return the paper's formulas against counted forwards."""
    found: Figures = {}
    for study in source.studies:
        if any(_is_scored(row) for row in study.rows):
            told = cost(study.rows, Steps.read(study.path), study.threshold)
            found |= formula_figures(study.name, told)
    return _needed(found, source, "round trips", "--scored 1")


def scaling_study(sources: Mapping[str, Source]) -> Figures:
    """Return the same studies of several models, by the models' names."""
    found: Figures = {}
    for name in dict.fromkeys(study.name for each in sources.values() for study in each.studies):
        rows = {
            model: study.rows
            for model, each in sources.items()
            for study in each.studies
            if study.name == name
        }
        for row in scaling(rows):
            found |= model_figures(name, row)
    if not found:
        raise RecordError(
            f"{', '.join(sources)} hold no answers; collect some with remask collect."
        )
    return found


def _fitted(study: Study) -> Figures:
    """Return optimized weights, combined baselines and cheaper agreement, judged and paired."""
    found = [pool for pool in pools(study.rows) if ROUNDTRIPS.score(pool) is not None]
    tried = {"roundtrips": ROUNDTRIPS, "confidence": recorded("confidence")}
    if any(pool[0]["scores"].get(JUDGE) is not None for pool in found):
        tried[JUDGE] = recorded(JUDGE)
    best = better_consistency(found) if pool_size(found) > 1 else None
    if best is not None:
        tried["consistency"] = best[0]
    tried_too = (_optimized(study, found), _baselines(study, found), _same_cost(found))
    made = [method for method in tried_too if method is not None]
    told: Figures = {}
    for method in made:
        told |= measured(f"diagnosis/{study.name}/{method.name}", judge_fully(method, found))
        tried[method.name] = method
    return told | _gaps(study.name, tried, found)


def _gaps(study: str, tried: Mapping[str, Method], found: Sequence[Pool]) -> Figures:
    """Return the paired differences of AUROC that pages speak of; one is told elsewhere."""
    told: Figures = {}
    for ours in ("roundtrips", OPTIMIZED):
        for theirs in ("confidence", "consistency", "roundtrips", BASELINES, SAME_COST, JUDGE):
            named = ours in tried and theirs in tried and ours != theirs
            if named and (ours, theirs) != ("roundtrips", "consistency"):
                gap = _gap(tried[ours], tried[theirs], found)
                unit = f"AUROC above {tried[theirs].name}, paired"
                told |= present(f"diagnosis/{study}/{ours}_minus_{theirs}", {"auroc": (gap, unit)})
    return told


def _gap(a: Method, b: Method, found: Sequence[Pool]) -> Interval | None:
    both = [pool for pool in found if a.score(pool) is not None and b.score(pool) is not None]
    (ours, right), (theirs, _) = columns(a, both), columns(b, both)
    return paired_difference(ours, theirs, right)


def _optimized(study: Study, found: Sequence[Pool]) -> Method | None:
    """Return the round trips with weights that the validation answers chose; None without any."""
    fitted = optimized(study.validation, [[pool[0] for pool in found]])
    if fitted is None:
        return None
    scores = combine(metric_columns([p[0] for p in found], list(fitted.values)), fitted.values)
    return _scored(OPTIMIZED, found, scores, ROUNDTRIPS.forwards)


def _baselines(study: Study, found: Sequence[Pool]) -> Method | None:
    """Return the combination of baselines that the validation answers chose; None without any."""
    given = pools(study.validation_pools)
    right = [bool(pool[0]["right"]) for pool in given]
    names = _present(given) & _present(found) if given and found else set()
    if len(set(right)) < 2 or not names:
        return None
    provenance = Provenance(
        metric_set="records", metrics=tuple(sorted(names)), task=study.task, model="as recorded",
        split="validation", seed=0, version="", date="",
    )  # fmt: skip
    weights = fit_weights(_baseline_columns(given, names), right, provenance).values
    used = [name for name in names if weights.get(name)]
    drawn = CONSISTENCY[0].forwards if set(used) & set(BY_POOL) else recorded("confidence").forwards

    def spent(pool: Pool) -> float:
        return drawn(pool) + sum(baseline_forwards(pool[0], name) for name in used)

    return _scored(BASELINES, found, combine(_baseline_columns(found, names), weights), spent)


def _same_cost(found: Sequence[Pool]) -> Method | None:
    """Return the agreement of as many samples as cost no less than the round trips of one.

    None where that is all samples or more, or where round trips cost nothing.
    """
    if not found:
        return None
    one = fmean(pool[0]["forwards"] for pool in found)
    size = ceil(fmean(ROUNDTRIPS.forwards(pool) for pool in found) / one) if one else 0
    if not 2 <= size < pool_size(found):
        return None
    return Method(
        name=SAME_COST,
        score=lambda pool: agreement(pool[:size]),
        forwards=lambda pool: float(sum(row["forwards"] for row in pool[:size])),
    )


def _present(found: Sequence[Pool]) -> set[str]:
    """Return the baselines that these pools have."""
    known = {n for n in RECORDED if any(p[0]["scores"].get(n) is not None for p in found)}
    return known | (set(BY_POOL) if pool_size(found) > 1 else set())


def _baseline_columns(found: Sequence[Pool], names: Iterable[str]) -> Columns:
    return {
        name: [
            BY_POOL[name](pool) if name in BY_POOL else pool[0]["scores"].get(name)
            for pool in found
        ]
        for name in sorted(names)
    }


def _scored(
    name: str, found: Sequence[Pool], scores: Column, spent: Callable[[Pool], float]
) -> Method:
    by_question = {pool[0]["id"]: value for pool, value in zip(found, scores, strict=True)}
    return Method(name=name, score=lambda pool: by_question[pool[0]["id"]], forwards=spent)


def _samples_by_difficulty(study: Study, found: Sequence[Pool]) -> Figures:
    """Return how many samples rejection sampling draws of hard, middle and easy problems."""
    shares = [others_right(pool) for pool in found]
    budget = min(BUDGET, pool_size(found))
    drawn = [mgrs(pool, study.threshold, budget).samples for pool in found]
    places = terciles(shares)
    told: Figures = {}
    for k, difficulty in enumerate(DIFFICULTIES):
        own = [(n, share) for n, share, p in zip(drawn, shares, places, strict=True) if p == k]
        if own:
            low, high = min(share for _, share in own), max(share for _, share in own)
            unit = f"samples; {low:.0%} to {high:.0%} of others right"
            interval = bootstrap(mean, [n for n, _ in own])
            name = f"correction/{study.name}/mgrs/{difficulty}"
            told |= present(name, {"n_avg": (interval, unit)})
    return told


def _against_rivals(study: Study, found: Sequence[Pool]) -> Figures:
    """Return what rejection sampling gains over the other methods on the same problems."""
    size = pool_size(found)
    ours = [mgrs(pool, study.threshold, min(BUDGET, size)).right for pool in found]
    told: Figures = {}
    for rival in RIVALS:
        if _drawn(rival) > size:
            continue
        theirs = [_settled(rival, pool) for pool in found]
        gained = [int(a) - int(b) for a, b in zip(ours, theirs, strict=True)]
        name = f"correction/{study.name}/mgrs_minus_{rival}"
        told |= present(name, {"accuracy": (bootstrap(mean, gained), "share above, paired")})
    return told


def _drawn(rival: str) -> int:
    """Return how many samples a method looks at, which its name says."""
    return int("".join(filter(str.isdigit, rival)) or 1)


def _settled(rival: str, pool: Pool) -> bool:
    seen = pool[: _drawn(rival)]
    if rival.startswith(("standard", "vote")):
        return majority(seen).right  # of one sample, that one
    return best_of(seen, "confidence" if "confidence" in rival else "roundtrips").right


def _labelled(source: Source) -> Iterator[Flawed]:
    """Yield the answers with graded steps, right ones among them scored."""
    for each in source.labelled:
        if any(row["right"] and row["process_ok"] is not None for row in each.rows if _score(row)):
            yield each


def _score(row: Row) -> bool:
    return row["scores"].get("roundtrips") is not None


def _is_scored(row: Row) -> bool:
    return "verify_forwards" in row


def _needed(found: Figures, source: Source, what: str, flags: str) -> Figures:
    """Return the figures, or raise where there are none."""
    if not found:
        raise RecordError(f"{source.name} holds no {what}; collect them: remask collect {flags}.")
    return found


def _told_apart(found: Figures, source: Source) -> Figures:
    """Return the figures, or raise where there are none because the answers are all alike."""
    scored = any("by_trip" in row for study in source.studies for row in study.rows)
    if scored and not found:
        raise RecordError(
            f"{source.name} holds answers that are too few or all alike; collect others: remask "
            "collect with more --problems or a harder --level."
        )
    return _needed(found, source, "round trips", "--scored 1")
