"""Records -> weights, a certificate, a calibrator, with the provenance that the manifest tells.

The fitting itself is in `decide` and works on plain columns; here the columns are taken from the
records of one collection. One answer per question counts, sample 0, unless rejection sampling with
a budget is to be certified. Columns are the metrics of the round trips, or baselines by name:

    confidence, confidence_canvas, self_evaluation, editor      of the answer, as recorded
    vote, agreement                    of its pool
    probe, verifier                    of the features that probes read

What was fitted to one of them belongs to the scorer of that name, and to the round trips otherwise;
several together are no scorer, so what was fitted to them is refused by every one. A verifier in
stages is fitted to the features themselves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from remask.analysis.pool import BY_POOL, RECORDED, Pool, pools
from remask.consistency.metrics import metric_names
from remask.consistency.settings import MetricSet
from remask.decide.calibration import Isotonic, Method, Platt, fit_calibrator
from remask.decide.columns import metric_columns, trip_mean
from remask.decide.provenance import COLUMNS, FEATURES, Provenance
from remask.decide.settings import Budget, Confidence, Risk
from remask.decide.stages import StagedVerifier
from remask.decide.threshold import Certificate, Refusal, accepts_all, best_f1, certify
from remask.decide.weights import Weights, combine, fit_weights
from remask.errors import InputError, RecordError, SettingsError
from remask.records.manifest import Manifest, RunEntry, is_edited, read_manifest
from remask.records.record import Record, answers_in, read_records
from remask.settings import checked, unknown_name
from remask.tasks import public
from remask.tasks import task as find_task
from remask.values import ROUNDTRIPS
from remask.verifier.columns import (
    GENERATION,
    MEANS,
    VERIFIER,
    Features,
    features_at_hand,
    label_free,
)
from remask.verifier.fit import fit_verifier

EXTERNAL = "external"  # model and split of records that were edited after they were collected
FEWEST = 10  # answers of each kind: one more or less then moves a chance by a tenth at most
BASELINES = (*RECORDED, *BY_POOL)
Columns = dict[str, list[float | None]]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The answers of one collection, and what its manifest says of them."""

    path: Path
    pools: Sequence[Pool]
    manifest: Manifest

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings they were collected with."""
        return self.manifest.settings

    @property
    def right(self) -> list[bool]:
        """Whether the standard answer to each question is right."""
        return [pool[0].right for pool in self.pools]

    def metrics(self, metric_set: MetricSet | None) -> tuple[MetricSet, tuple[str, ...]]:
        """Return a metric set, the one collected by default, and its metrics for this task."""
        chosen: MetricSet = metric_set or self.settings["metrics"]
        names = metric_names(chosen, find_task(self.settings["task"]).metrics)
        scored = [row for pool in self.pools for row in pool if row.by_trip]
        if not scored:
            raise InputError(
                f"{self.path} holds no round trips; collect it with --scored 1 or more."
            )
        absent = [name for name in names if name not in scored[0].by_trip]
        if absent:
            raise InputError(
                f"{self.path} does not hold {', '.join(absent)} of the metric set {chosen!r}; "
                f"choose the one it was collected with, {self.settings['metrics']!r}."
            )
        return chosen, names

    def columns(self, metric_set: str, names: Sequence[str], number: int = 0) -> Columns:
        """Return columns by name, of sample `number` of every question."""
        rows = [pool[number] for pool in self.pools]
        if metric_set != COLUMNS:
            return metric_columns(rows, names)
        columns: Columns = {}
        for name in names:
            if name in BY_POOL:
                columns[name] = [BY_POOL[name](pool) for pool in self.pools]
            elif name in MEANS:
                columns[name] = [label_free(name, row.features) for row in rows]
            else:
                columns[name] = [row.scores.get(name) for row in rows]
        return columns

    def scorer(self, metric_set: str, metrics: Sequence[str]) -> tuple[str, int]:
        """Return whose scores these columns make, and in which version of it they are here."""
        if metric_set == FEATURES:
            return VERIFIER, self.manifest.scorer_version(VERIFIER)
        if metric_set != COLUMNS:
            return ROUNDTRIPS, self.manifest.scorer_version(ROUNDTRIPS)
        return "+".join(metrics), max(map(self.manifest.scorer_version, metrics))

    def provenance(
        self, metric_set: str, metrics: Sequence[str], weights: Weights | None = None
    ) -> Provenance:
        """Return where something fitted on these answers is from."""
        settings, manifest = self.settings, self.manifest
        last = manifest.runs[-1] if manifest.runs else RunEntry()
        model = manifest.model
        about = ("level", "sampler", "consistency", "samples", "wording", "shots")
        scorer, version = self.scorer(metric_set, metrics)
        return Provenance(
            scorer=scorer,
            scorer_version=version,
            metric_set=metric_set,
            metrics=tuple(metrics),
            task=settings["task"],
            model=settings["model"],
            split=settings["split"],
            seed=settings["seed"],
            version=last.versions.get("remask") or "unknown",
            date=last.started or manifest.started or "unknown",
            weights=None if weights is None else dict(weights.values),
            settings={name: settings.get(name) for name in about}
            | {"dataset": manifest.dataset}
            | {name: getattr(model, name, None) for name in ("revision", "dtype")},
        )


@checked
def read_evidence(path: Path) -> Evidence:
    """Return the records of a file with their manifest, or raise where they cannot be used."""
    rows = answers_in(read_records(path))
    if not rows:
        raise InputError(f"{path} holds no records; collect some.")
    manifest = read_manifest(path)
    if is_edited(path, manifest):
        # Nothing is known of the answers: what is fitted to them applies to no model.
        settings = {n: v for n, v in manifest.settings.items() if n in ("metrics", "seed")}
        settings |= {"task": rows[0].task, "level": rows[0].level}
        settings |= {"model": EXTERNAL, "split": EXTERNAL}
        manifest = Manifest(settings=settings, scorers=manifest.scorers)
    absent = [name for name in ("task", "model", "split", "seed") if name not in manifest.settings]
    if absent:
        raise RecordError(
            f"the manifest of {path} does not name the {absent[0]}; collect it again."
        )
    return Evidence(path=path, pools=pools(rows), manifest=manifest)


@checked
def fit(path: Path, metric_set: MetricSet | None = None, columns: Sequence[str] = ()) -> Weights:
    """Return weights of the round trips' metrics, or of baselines where these are named."""
    evidence = read_evidence(path)
    _check_columns(evidence, columns)
    chosen: tuple[str, Sequence[str]]
    chosen = (COLUMNS, columns) if columns else evidence.metrics(metric_set)
    return fit_weights(evidence.columns(*chosen), evidence.right, evidence.provenance(*chosen))


@checked
def threshold_of(path: Path, scorer: str) -> float | None:
    """Return the threshold of the best F1 of a score in 0..1; None where it rejects no answer."""
    evidence = read_evidence(path)
    _check_columns(evidence, [scorer])
    scores = evidence.columns(COLUMNS, [scorer])[scorer]
    limit = best_f1(scores, evidence.right)
    return None if accepts_all(scores, limit) else limit


@checked
def fit_stages_of(path: Path, *, at_hand: bool = False) -> StagedVerifier:
    """Return the verifier in stages that the features of these answers give.

    For answers `at_hand` it looks at nothing that only answers written here have.
    """
    evidence = read_evidence(path)
    rows = [pool[0] for pool in evidence.pools]
    if not any(row.features for row in rows):
        remedy = f"collect it with {_probes([VERIFIER])}"
        raise InputError(f"{path} holds no features; {remedy}.")
    names = metric_names("core", find_task(evidence.settings["task"]).metrics)
    answers = [row.features | _round_trips(row, names) for row in rows]
    if at_hand:
        answers = [features_at_hand(features) for features in answers]
    return fit_verifier(answers, evidence.right, evidence.provenance(FEATURES, ()))


@checked
def certify_records(
    path: Path,
    weights: Path | None = None,
    *,
    scorer: str = ROUNDTRIPS,
    risk: Risk = 0.1,
    confidence: Confidence = 0.95,
    budget: Budget = 1,
) -> Certificate | Refusal:
    """Return the certificate of these answers, scored with the weights of a file or uniform ones.

    Another scorer than the round trips is a column, and has no weights. Answers that the weights
    were fitted on are refused: on them the promise would be too good.
    """
    evidence = read_evidence(path)
    chosen, metrics, fitted = _weighted(evidence, weights, scorer)
    if fitted is not None:
        _refuse_second_look(evidence, fitted, path, "certify")
    _check_budget(evidence, chosen, metrics, budget)
    samples = [
        _scores(evidence.columns(chosen, metrics, number), fitted) for number in range(budget)
    ]
    labels = [[pool[number].right for pool in evidence.pools] for number in range(budget)]
    about = evidence.provenance(chosen, metrics, fitted)
    if budget == 1:
        return certify(samples[0], labels[0], about, risk=risk, confidence=confidence)
    scores, right = list(zip(*samples, strict=True)), list(zip(*labels, strict=True))
    return certify(scores, right, about, risk=risk, confidence=confidence)


def calibrate(
    path: Path,
    weights: Path | None = None,
    method: Method = "isotonic",
    *,
    scorer: str = ROUNDTRIPS,
) -> Isotonic | Platt:
    """Return the calibrator of these answers' scores, with the weights of a file or uniform.

    Answers that the weights were fitted on are refused: there they look better than they are.
    """
    evidence = read_evidence(path)
    chosen, metrics, fitted = _weighted(evidence, weights, scorer)
    if fitted is not None:
        _refuse_second_look(evidence, fitted, path, "calibrate")
    _check_kinds(evidence)
    scores = _scores(evidence.columns(chosen, metrics), fitted)
    return fit_calibrator(
        scores, evidence.right, evidence.provenance(chosen, metrics, fitted), method
    )


def _check_kinds(evidence: Evidence) -> None:
    """Raise where a curve would rest on a handful of right, or of wrong, answers."""
    right = sum(evidence.right)
    for kind, num in (("right", right), ("wrong", len(evidence.pools) - right)):
        if num < FEWEST:
            raise InputError(
                f"{evidence.path} holds {num} {kind} answers, too few for chances that hold "
                f"elsewhere; collect at least {FEWEST} right and {FEWEST} wrong ones."
            )


def _round_trips(row: Record, names: Sequence[str]) -> Features:
    """Return what round trips say of an answer and what they cost; nothing where there are none."""
    if row.verify_forwards is None:
        return {}
    features: Features = {f"{ROUNDTRIPS}.{name}": trip_mean(row, name) for name in names}
    return features | {f"{ROUNDTRIPS}.forwards": row.verify_forwards}


def _check_columns(evidence: Evidence, names: Sequence[str]) -> None:
    """Raise where columns are not different ones that there are, and that these records have."""
    known = (*BASELINES, *MEANS)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise unknown_name("column", unknown[0], known)
    if len(set(names)) < len(names):
        raise SettingsError(f"columns must differ, got {', '.join(names)}.")
    for name in names:
        if name in RECORDED and not any(name in pool[0].scores for pool in evidence.pools):
            remedy = f"collect it with --baselines {name}"
            raise InputError(f"{evidence.path} holds no {name}; {remedy}.")
        values = evidence.columns(COLUMNS, [name])[name]
        if name in MEANS and set(values) == {None}:
            remedy = f"collect it with {_probes([name])}"
            raise InputError(f"{evidence.path} holds no {name}; {remedy}.")


def _probes(scorers: Sequence[str]) -> str:
    """Return the flag that lets probes read what label-free scores are made of."""
    needed = dict.fromkeys(value for name in scorers for value in MEANS.get(name, ()))
    return f"--probes {','.join(name for name in needed if name != GENERATION)}"


def _weighted(
    evidence: Evidence, weights: Path | None, scorer: str = ROUNDTRIPS
) -> tuple[str, Sequence[str], Weights | None]:
    """Return the metric set, its metrics and the weights that the answers are scored with."""
    if scorer != ROUNDTRIPS:
        if weights is not None:
            raise SettingsError(f"scorer {scorer!r} has no weights; leave one of them out.")
        every = (ROUNDTRIPS, *BASELINES, *MEANS)
        if scorer not in every:
            raise unknown_name("scorer", scorer, every)
        _check_columns(evidence, [scorer])
        return COLUMNS, (scorer,), None
    if weights is None:
        return *evidence.metrics(None), None
    fitted = Weights.read(weights)
    about = fitted.provenance
    if about.metric_set == COLUMNS:
        scorer, version = evidence.scorer(COLUMNS, about.metrics)
        # A file of before scorers had names says nothing of these.
        replace(about, scorer=scorer).check_scorer(scorer, version, weights)
        return COLUMNS, about.metrics, fitted
    known: MetricSet | None = "core" if about.metric_set == "core" else None
    chosen, metrics = evidence.metrics(known)
    _, version = evidence.scorer(chosen, metrics)
    return chosen, metrics, Weights.load(weights, chosen, metrics, version=version)


def _scores(columns: Columns, weights: Weights | None) -> list[float | None]:
    even = dict.fromkeys(columns, 1 / len(columns))
    return combine(columns, even if weights is None else weights.values)


def _refuse_second_look(evidence: Evidence, weights: Weights, path: Path, act: str) -> None:
    """Raise where the weights may have been fitted on these questions.

    A seed draws other problems of a generated task; the rows of a benchmark stay the same.
    """
    settings, about = evidence.settings, weights.provenance
    level, fixed = about.settings.get("level"), settings["task"] in public.NAMES
    same = (about.task, about.split) == (settings["task"], settings["split"])
    same_level = level == settings["level"] or (fixed and "all" in (level, settings["level"]))
    if same and same_level and (fixed or about.seed == settings["seed"]):
        other = "split" if fixed else "seed or split"
        raise InputError(
            f"{path} holds the questions that the weights were fitted on ({about.task}, level "
            f"{level}, split {about.split}, seed {about.seed}); {act} on another {other}."
        )


def _check_budget(evidence: Evidence, metric_set: str, metrics: Sequence[str], budget: int) -> None:
    """Raise where so many samples of a question cannot be scored."""
    if budget < 1:
        raise SettingsError(f"budget is {budget}; it must be at least 1.")
    if budget > 1 and set(metrics) & set(BY_POOL):
        raise SettingsError("vote and agreement are of one answer per question; set budget 1.")
    is_probed = bool(set(metrics) & set(MEANS))
    usable = [
        sum(_is_measured(row, metric_set, is_probed) for row in pool[:budget])
        for pool in evidence.pools
    ]
    if min(usable) < budget:
        raise InputError(
            f"{evidence.path} holds scores of {min(usable)} samples per question and the budget is "
            f"{budget}; collect it with --samples {budget} --scored {budget}"
            f"{f' {_probes(metrics)}' if is_probed else ''}."
        )


def _is_measured(row: Record, metric_set: str, is_probed: bool) -> bool:
    """Say whether a sample has what its score is made of: round trips, features or a column."""
    if metric_set != COLUMNS:
        return bool(row.by_trip)
    return bool(row.features) or not is_probed
