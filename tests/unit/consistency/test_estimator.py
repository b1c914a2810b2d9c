"""The composite on round trips made by hand, and the scorer as a whole."""

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from remask.answers import extract_number
from remask.consistency import roundtrips
from remask.consistency.metrics import Context, Metric
from remask.consistency.roundtrips import Consistency, round_trips
from remask.consistency.semantic import SentenceEncoder, sentence_encoder
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.errors import SettingsError
from remask.sampling.sampler import sample
from remask.sampling.settings import SamplerSettings
from remask.testing import check_scorer
from remask.values import RoundTrips, Sample

Answer = Callable[..., Sample]
Ids = Callable[[str], tuple[int, ...]]
CORE = ("token_accuracy", "number_retention", "answer_match", "character_similarity", "confidence")
MEANS = {
    "token_accuracy": 0.875,
    "number_retention": 0.75,
    "answer_match": 0.5,
    "character_similarity": 5 / 6,
    "confidence": 0.8,
}


@pytest.fixture
def core(llada: Denoiser) -> Consistency:
    settings = ConsistencySettings(trips=2, rebuild_steps=4)
    return Consistency(denoiser=llada, extract=extract_number, metric_set="core", settings=settings)


@pytest.fixture
def trips(answer: Answer, ids: Ids) -> RoundTrips:
    """`7 9` and its end, twice masked whole: rebuilt as it was, and as `7 8`."""
    rebuilt = torch.tensor([ids("7 9."), ids("7 8.")])
    original = answer("7 9.")
    return RoundTrips(
        sample=original,
        masked=torch.ones(2, 4, dtype=torch.bool),
        rebuilt=rebuilt,
        texts=("7 9", "7 8"),
        confidence=(0.9, 0.7),
        logp=torch.log(torch.tensor([[0.5, 0.5, 0.5, 0.5], [0.25, 0.25, 0.25, 0.25]])),
        drift=torch.tensor([0.0, 0.0, 0.5, math.nan]),
        displacement=(0.0, 0.6),
        forwards=8,
    )


def test_the_composite_is_the_mean_of_the_metrics_means(
    core: Consistency, trips: RoundTrips
) -> None:
    """Two trips, worked by hand.

    Tokens 4/4 and 3/4; numbers 2/2 and 1/2; answer 1 and 0; letters 1 and 2/3; confidence .9 and
    .7. Means .875 .75 .5 .8333 .8, together 3.758333 / 5 = .751667.
    """
    (score,) = core.measure([trips])
    assert score.by_metric == pytest.approx(MEANS)
    assert score.by_trip["token_accuracy"] == (1.0, 0.75)
    assert score.by_trip["number_retention"] == (1.0, 0.5)
    assert score.by_trip["answer_match"] == (1.0, 0.0)
    assert score.by_trip["character_similarity"] == pytest.approx((1.0, 2 / 3))
    assert score.value == pytest.approx(0.7516667)
    assert score.forwards == 8


def test_the_standard_error_is_that_of_the_trips_composites(
    core: Consistency, trips: RoundTrips
) -> None:
    """(4 + .9) / 5 = .98 and (.75 + .5 + 0 + .6667 + .7) / 5 = .523333: half their gap."""
    (score,) = core.measure([trips])
    assert score.stderr == pytest.approx((0.98 - 0.5233333) / 2)


def test_a_single_trip_has_no_standard_error(core: Consistency, trips: RoundTrips) -> None:
    single = replace(core, settings=ConsistencySettings(trips=1))
    first = replace(
        trips,
        masked=trips.masked[:1],
        rebuilt=trips.rebuilt[:1],
        texts=trips.texts[:1],
        confidence=trips.confidence[:1],
        logp=trips.logp[:1],
        displacement=trips.displacement[:1],
    )
    (score,) = single.measure([first])
    assert score.stderr is None
    assert score.value == pytest.approx(0.98)


@pytest.mark.parametrize(("rows", "root"), [([0, 1], 1), ([0] * 4 + [1] * 4, 7)])
def test_the_standard_error_is_over_the_trips_there_are(
    core: Consistency, trips: RoundTrips, rows: list[int], root: int
) -> None:
    """The composites are .98 and .523333, once or four times each; the settings say 4 trips.

    Half their gap d: two trips have a variance of 2 d^2 / 1 and an error of d; eight have a
    variance of 8 d^2 / 7 and an error of d / sqrt(7).
    """
    made = replace(
        trips,
        masked=trips.masked[rows],
        rebuilt=trips.rebuilt[rows],
        texts=tuple(trips.texts[i] for i in rows),
        confidence=tuple(trips.confidence[i] for i in rows),
        logp=trips.logp[rows],
        displacement=tuple(trips.displacement[i] for i in rows),
    )
    (score,) = replace(core, settings=ConsistencySettings(trips=4)).measure([made])
    assert score.stderr == pytest.approx((0.98 - 0.5233333) / 2 / math.sqrt(root))


def test_drift_is_reported_per_token_and_none_where_no_trip_masked_it(
    core: Consistency, trips: RoundTrips
) -> None:
    (score,) = core.measure([trips])
    assert score.drift == (0.0, 0.0, 0.5, None)


def test_weights_weigh(core: Consistency, trips: RoundTrips) -> None:
    """0.6 x .5 + 0.4 x .875 = .65; metrics of weight 0 are measured all the same."""
    weights = {**dict.fromkeys(CORE, 0.0), "answer_match": 0.6, "token_accuracy": 0.4}
    (score,) = replace(core, weights=weights).measure([trips])
    assert score.value == pytest.approx(0.65)
    assert set(score.by_metric) == set(CORE)


def test_an_absent_metric_shares_out_its_weight(core: Consistency, trips: RoundTrips) -> None:
    """No number in the original: retention is absent, and the answer, never found, matches 0.

    Letters of `ab` against `ab` and `7 8`: 1 and 0. (.875 + 0 + .5 + .8) / 4 = .54375.
    """
    wordless = replace(trips, sample=replace(trips.sample, text="ab"), texts=("ab", "7 8"))
    (score,) = core.measure([wordless])
    assert "number_retention" not in score.by_metric
    assert score.by_trip["number_retention"] == (None, None)
    assert score.value == pytest.approx(0.54375)


def test_weights_on_an_absent_metric_alone_give_no_value_and_the_reason(
    core: Consistency, trips: RoundTrips
) -> None:
    wordless = replace(trips, sample=replace(trips.sample, text="ab"), texts=("ab", "7 8"))
    weights = {**dict.fromkeys(CORE, 0.0), "number_retention": 1.0}
    (score,) = replace(core, weights=weights).measure([wordless])
    assert (score.value, score.stderr) == (None, None)
    assert score.reason == "no metric of positive weight has a value"


def test_extra_metrics_are_reported_outside_the_composite(
    core: Consistency, trips: RoundTrips
) -> None:
    """cross_entropy: exp(log .5) and exp(log .25), mean .375. embedding_distance: 0 and -.6."""
    extra = ("cross_entropy", "embedding_distance", "critical_divergence")
    (score,) = replace(core, extra_metrics=extra).measure([trips])
    assert score.value == pytest.approx(0.7516667)
    assert score.by_metric["cross_entropy"] == pytest.approx(0.375)
    assert score.by_metric["embedding_distance"] == pytest.approx(-0.3)
    assert score.by_trip["critical_divergence"] == pytest.approx((math.log(0.5), math.log(0.25)))


def test_a_task_may_name_its_own_metrics(core: Consistency, trips: RoundTrips) -> None:
    """Code has no answer to match; the encoder's metric is left out of the core set."""
    named = replace(core, task_metrics=("semantic_similarity", "token_accuracy", "confidence"))
    (score,) = named.measure([trips])
    assert named.metrics == ("token_accuracy", "confidence")
    assert score.value == pytest.approx((0.875 + 0.8) / 2)


def test_the_core_set_never_asks_for_an_encoder(
    core: Consistency, trips: RoundTrips, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(device: str) -> SentenceEncoder:
        raise AssertionError("the encoder was asked for")

    monkeypatch.setattr(roundtrips, "sentence_encoder", refuse)
    assert core.measure([trips])[0].value is not None
    with pytest.raises(AssertionError, match="was asked for"):
        replace(core, metric_set="paper").measure([trips])


def test_the_paper_set_encodes_every_distinct_text_once(
    core: Consistency, trips: RoundTrips, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two answers with the texts `7 9` x 3, `7 8` x 2 and `7` once: one call of three texts.

    The stand-in maps a text to (1, its last digit): cosine of `7 9` and `7 8` is
    73 / sqrt(82 x 65). The composite is then over six.
    """
    asked: list[list[str]] = []

    def encode(texts: list[str], **_: object) -> list[list[float]]:
        asked.append(texts)
        return [[1.0, float(text[-1])] for text in texts]

    encoder = SentenceEncoder(SimpleNamespace(encode=encode))
    monkeypatch.setattr(roundtrips, "sentence_encoder", lambda device: encoder)
    other = replace(trips, texts=("7 8", "7"), sample=replace(trips.sample, item="other"))
    score, _ = replace(core, metric_set="paper").measure([trips, other])
    assert [sorted(texts) for texts in asked] == [["7", "7 8", "7 9"]]
    cosine = 73 / math.sqrt(82 * 65)
    assert score.by_trip["semantic_similarity"] == pytest.approx((1.0, cosine))
    assert score.value == pytest.approx((sum(MEANS.values()) + (1 + cosine) / 2) / 6)


def test_the_sentence_encoder_puts_a_paraphrase_nearer_than_another_statement() -> None:
    """all-MiniLM-L6-v2 from the package that carries it: unit vectors of 384 numbers."""
    texts = [
        "She sells the remaining 9 eggs at the market.",
        "The 9 eggs that are left are sold by her at the market.",
        "A square matrix is invertible if its determinant is not zero.",
    ]
    vectors = sentence_encoder("cpu").encode([*texts, texts[0]])
    original, paraphrase, other = (vectors[text] for text in texts)
    assert len(vectors) == 3
    assert original.shape == (384,)
    assert np.linalg.norm(original) == pytest.approx(1, abs=1e-4)
    assert original @ paraphrase > 0.8 > 0.3 > original @ other


def test_score_makes_the_round_trips_and_measures_them(core: Consistency, answer: Answer) -> None:
    samples = [answer("1 + 1 = 2......", item=str(i), prompt="x" * (i + 1)) for i in range(3)]
    made = round_trips(core.denoiser, samples, core.settings, seed=core.seed)
    assert core.score(samples) == core.measure(made)


def test_ratio_zero_masks_nothing_and_gives_no_score(core: Consistency, answer: Answer) -> None:
    still = replace(core, settings=ConsistencySettings(mask_ratio=0.0, trips=2))
    (score,) = still.score([answer("1 + 1 = 2.")])
    assert (score.value, score.forwards, score.by_metric) == (None, 0, {})
    assert "no token" in score.reason


@pytest.mark.parametrize("text", ["", " \n", "\u200b"])
def test_an_answer_without_content_has_no_score(
    core: Consistency, answer: Answer, text: str
) -> None:
    """An answer beside it keeps the score that it has alone."""
    empty, full = replace(answer("ab."), text=text), answer("1 + 1 = 2.")
    for metrics in (None, ("token_accuracy",), ("character_similarity",)):
        scorer = replace(core, task_metrics=metrics)
        none, some = scorer.score([empty, full])
        assert (none.value, none.reason, none.forwards) == (None, "the answer is empty", 0)
        assert [some] == scorer.score([full])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metric_set": "best"}, "metric_set must be paper or core, got 'best'"),
        ({"extra_metrics": ("bleu",)}, "Unknown metric 'bleu'"),
        ({"task_metrics": ("bleu",)}, "Unknown metric 'bleu'"),
        ({"weights": {"confidence": 1.0}}, "weights must name the metrics .*, got confidence"),
        ({"weights": dict.fromkeys(CORE, 0.5)}, "weights must sum to 1, got 2.5"),
        ({"weights": {**dict.fromkeys(CORE, 0.5), "confidence": -1}}, "must be at least 0, got -1"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    core: Consistency, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        replace(core, **changes)  # type: ignore[arg-type]


def test_weights_of_the_paper_set_do_not_serve_the_core_set(core: Consistency) -> None:
    six = dict.fromkeys((*CORE, "semantic_similarity"), 1 / 6)
    assert replace(core, metric_set="paper", weights=six).weights == six
    with pytest.raises(SettingsError, match="weights must name the metrics"):
        replace(core, weights=six)


def test_consistency_keeps_the_contract_of_a_scorer(core: Consistency, llada: Denoiser) -> None:
    prompts = ["ab", "a longer prompt", "x"]
    how = SamplerSettings(length=16, steps=8, block=16, temperature=0.5)
    pool = sample(llada, [llada.tokenizer.encode(p) for p in prompts], how, items=prompts)
    check_scorer(core, pool)


def count_trips(trips: RoundTrips, context: Context) -> list[float | None]:
    """Return 1 for a rebuild that reads as the original did, a half for another, none for none."""
    original = context.extract(trips.sample.text)
    return [None if not t else 1.0 if context.extract(t) == original else 0.5 for t in trips.texts]


RE_READ = Metric(name="re_read", compute=count_trips)


def test_a_metric_from_outside_counts_beside_those_of_the_table(
    core: Consistency, trips: RoundTrips
) -> None:
    """It has 1 and 1/2, confidence .9 and .7: means .75 and .8, and .775 with equal weights."""
    mine = replace(core, task_metrics=(RE_READ, "confidence"), extra_metrics=("answer_match",))
    (score,) = mine.measure([trips])
    assert mine.metrics == ("re_read", "confidence")
    assert score.by_trip["re_read"] == (1.0, 0.5)
    assert score.value == pytest.approx(0.775)
    assert score.by_metric["answer_match"] == 0.5
    weighted = replace(mine, weights={"re_read": 1.0, "confidence": 0.0})
    assert weighted.measure([trips])[0].value == 0.75


def test_a_metric_may_be_named_by_its_module(
    core: Consistency, trips: RoundTrips, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "somebodys", SimpleNamespace(RE_READ=RE_READ, other=3))
    mine = replace(core, extra_metrics=("somebodys:RE_READ",))
    assert mine.measure([trips])[0].by_metric["re_read"] == 0.75
    with pytest.raises(SettingsError, match="metric 'somebodys:other' has no name"):
        replace(core, extra_metrics=("somebodys:other",))


def test_a_metric_that_forgets_a_trip_is_refused(core: Consistency, trips: RoundTrips) -> None:
    short = Metric(name="short", compute=lambda trips, context: [1.0])
    with pytest.raises(SettingsError, match=r"one value per round trip \(2\), got 1"):
        replace(core, extra_metrics=(short,)).measure([trips])


def test_a_score_says_whose_it_is_and_with_which_weights(
    core: Consistency, trips: RoundTrips
) -> None:
    (score,) = core.measure([trips])
    assert (score.scorer, score.version) == ("roundtrips", roundtrips.VERSION)
    assert score.weights == dict.fromkeys(CORE, 0.2)
    chosen = {**dict.fromkeys(CORE, 0.0), "confidence": 1.0}
    assert replace(core, weights=chosen).measure([trips])[0].weights == chosen
