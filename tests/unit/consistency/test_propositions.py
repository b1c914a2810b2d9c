"""The paper's Propositions 1 to 4 on a network whose every sequence and every mask can be listed.

Three letters, three places: 27 sequences, 8 masks. `q` is the design's perturbation: each place
with probability `ratio`, and one place at random where none was drawn.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations, product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from remask.consistency.metrics import DIVERGENCES, critical_divergence
from remask.consistency.roundtrips import linear_schedule, round_trips
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.wrap import Suppressed
from remask.sampling.loop import denoise
from remask.values import Canvas, Sample

LETTERS = (3, 4, 5)
LENGTH = 3
SEQUENCES = list(product(LETTERS, repeat=LENGTH))
PATTERNS = list(product([False, True], repeat=LENGTH))  # which places are masked
PROMPT = (4,)
Masked = tuple[bool, ...]
Tokens = tuple[int, ...]


class Model:
    """The network with its predictions listed, in float64."""

    def __init__(self, denoiser: Denoiser) -> None:
        self.denoiser = denoiser
        self.predict = cache(self._predict)
        vectors = denoiser.embed(torch.tensor(LETTERS))
        self.letters = vectors.double()  # (3, E)

    def _predict(self, tokens: Tokens, masked: Masked) -> Tensor:
        """Return what the model believes of every place, (L, 3), given those in sight."""
        shown = [1 if hide else t for t, hide in zip(tokens, masked, strict=True)]
        canvas = Canvas.of([PROMPT], [shown], 0, self.denoiser.device)
        logits = self.denoiser.head(self.denoiser.hidden(canvas)[0, len(PROMPT) :])
        return logits[:, LETTERS].double().softmax(-1)

    def joint(self, tokens: Tokens, masked: Masked) -> dict[Tokens, float]:
        """Return p(x | masked tokens) of all 27 sequences: places in sight are certain."""
        seen = self.predict(tokens, masked)
        out = {}
        for sequence in SEQUENCES:
            factors = [
                float(seen[i, LETTERS.index(t)]) if masked[i] else float(t == tokens[i])
                for i, t in enumerate(sequence)
            ]
            out[sequence] = math.prod(factors)
        return out

    def logp(self, tokens: Tokens) -> dict[Masked, float]:
        """Return the sum over masked places of log p(original), by the library, for every mask."""
        rows = torch.tensor([tokens] * len(PATTERNS))
        masked = torch.tensor(PATTERNS)
        canvas = Canvas.of(
            [PROMPT] * len(rows), rows.masked_fill(masked, 1).tolist(), 0, self.denoiser.device
        )
        truth = torch.cat([torch.tensor([PROMPT] * len(rows)), rows], 1)
        done = denoise(self.denoiser, canvas, linear_schedule, 1, truth=truth)
        return dict(zip(PATTERNS, done.logp.double().sum(1).tolist(), strict=True))

    def operator(self, mixture: Tensor, ratio: float) -> Tensor:
        """Return T(z) for a mixture of sequences with independent places, (L, 3) -> (L, 3).

        The expectation over sequences, masks and predictions; at a corner of the simplex, where
        the mixture is one sequence, it is the paper's operator on that sequence.
        """
        out = torch.zeros(LENGTH, 3, dtype=torch.float64)
        for sequence in SEQUENCES:
            chance = math.prod(float(mixture[i, LETTERS.index(t)]) for i, t in enumerate(sequence))
            if chance > 0:
                out += chance * self._expected(sequence, ratio)
        return out

    def _expected(self, tokens: Tokens, ratio: float) -> Tensor:
        out = torch.zeros(LENGTH, 3, dtype=torch.float64)
        for masked, weight in chances(ratio).items():
            hidden = torch.tensor(masked)[:, None]
            out += weight * torch.where(hidden, self.predict(tokens, masked), corner(tokens))
        return out

    def norm(self, difference: Tensor) -> float:
        """Return the length, in the model's embedding space, of a difference of mixtures (L, 3)."""
        return float((difference @ self.letters).norm())

    def fixed_point(self, ratio: float) -> Tensor:
        """Return z* = T(z*), by iteration."""
        point = torch.full((LENGTH, 3), 1 / 3, dtype=torch.float64)
        for _ in range(80):
            point = self.operator(point, ratio)
            # The operator multiplies places: a rounding error in their sums would grow threefold.
            point = point / point.sum(1, keepdim=True)
        return point


def corner(tokens: Sequence[int]) -> Tensor:
    """Return the mixture that is one sequence, (L, 3)."""
    places = torch.tensor([LETTERS.index(t) for t in tokens])
    return torch.nn.functional.one_hot(places, 3).double()


@cache
def chances(ratio: float) -> dict[Masked, float]:
    """Return q(mask): independent places; the empty draw becomes one place at random."""
    weights = {m: ratio ** sum(m) * (1 - ratio) ** (LENGTH - sum(m)) for m in PATTERNS}
    empty = weights.pop((False,) * LENGTH)
    return {m: w + (empty / LENGTH if sum(m) == 1 else 0.0) for m, w in weights.items()}


@pytest.fixture(scope="module")
def model(enumerable_llada: NativeDenoiser) -> Model:
    return Model(Suppressed(enumerable_llada, ids=(0, 2)))  # letters only: the ends are forbidden


def answer(tokens: Tokens) -> Sample:
    return Sample(item=str(tokens), prompt=PROMPT, canvas=tokens, num_response=3, text="")


def kl_to(tokens: Tokens, joint: dict[Tokens, float]) -> float:
    """Return KL(delta || joint), summed over all sequences with 0 log 0 = 0."""
    delta = {s: float(s == tokens) for s in joint}
    return sum(p * math.log(p / joint[s]) for s, p in delta.items() if p > 0)


# Proposition 1


@pytest.mark.parametrize("tokens", [(3, 3, 3), (5, 4, 3), (4, 5, 5)])
def test_the_kl_score_is_the_reweighted_elbo_and_its_constant_is_zero(
    model: Model, tokens: Tokens
) -> None:
    """Left: Definition 1 with KL over the 27 sequences. Right: (1/T) sum_t E[sum_masked log p].

    T = 4, masking with probability t / T by the paper's q: without our extra token.
    """
    horizon, logp = 4, model.logp(tokens)
    left = right = 0.0
    for t, masked in itertools.product(range(1, horizon + 1), PATTERNS):
        weight = (t / horizon) ** sum(masked) * (1 - t / horizon) ** (LENGTH - sum(masked))
        left -= weight * kl_to(tokens, model.joint(tokens, masked)) / horizon
        right += weight * logp[masked] / horizon
    assert left == pytest.approx(right, rel=1e-5)
    assert left < -0.5


def test_round_trips_at_a_uniform_ratio_estimate_that_score(model: Model) -> None:
    """3000 trips against the integral over the ratio, within 4 standard errors.

    A mask with m of 3 places has the chance B(m + 1, 4 - m): 1/4 1/12 1/12 1/4; the quarter of
    the empty one goes to the three masks with one place.
    """
    tokens = (5, 4, 3)
    weights = {m: math.factorial(sum(m)) * math.factorial(3 - sum(m)) / 24 for m in PATTERNS}
    empty = weights.pop((False,) * 3)
    logp = model.logp(tokens)
    exact = sum((weight + empty / 3 * (sum(m) == 1)) * logp[m] for m, weight in weights.items())
    settings = ConsistencySettings(mask_ratio="uniform", trips=3000, rebuild_steps=1)
    (trips,) = round_trips(model.denoiser, [answer(tokens)], settings)
    drawn = trips.logp.double().sum(1)
    assert drawn.mean().item() == pytest.approx(exact, abs=4 * drawn.std().item() / 3000**0.5)
    assert drawn.std().item() > 0.1


# Proposition 2


@pytest.mark.parametrize("f", DIVERGENCES)
@given(low=st.floats(1e-6, 1.0), high=st.floats(1e-6, 1.0))
def test_the_divergence_score_rises_strictly_with_the_probability(
    f: str, low: float, high: float
) -> None:
    if abs(low - high) < 1e-9:
        return
    one, other = (
        critical_divergence(
            torch.tensor([math.log(q)], dtype=torch.float64), torch.tensor([True]), f
        )
        for q in (min(low, high), max(low, high))
    )
    assert one is not None
    assert other is not None
    assert one < other <= 0


def test_the_kl_score_of_the_critical_tokens_is_their_marginal_likelihood(model: Model) -> None:
    """Places 0 and 2 are critical; place 1 is summed out of the joint over all 27 sequences."""
    whole, critical = (True,) * LENGTH, torch.tensor([True, False, True])
    for tokens in SEQUENCES:
        joint = model.joint(tokens, whole)
        marginal = sum(p for s, p in joint.items() if (s[0], s[2]) == (tokens[0], tokens[2]))
        seen = model.predict(tokens, whole)
        logp = torch.stack([seen[i, LETTERS.index(t)] for i, t in enumerate(tokens)]).log()
        score = critical_divergence(logp, critical, "kl")
        assert score is not None
        assert 2 * score == pytest.approx(math.log(marginal))


@pytest.mark.parametrize("f", DIVERGENCES)
def test_every_divergence_orders_a_critical_token_as_its_marginal_likelihood(
    model: Model, f: str
) -> None:
    """One critical place, all masks that hide it and all contents of the others."""
    pairs = []
    for tokens, masked in product(SEQUENCES, PATTERNS):
        if masked[1]:
            q = sum(p for s, p in model.joint(tokens, masked).items() if s[1] == tokens[1])
            logp = torch.tensor([q], dtype=torch.float64).log()
            pairs.append((q, critical_divergence(logp, torch.tensor([True]), f)))
    pairs.sort()
    assert len({round(q, 9) for q, _ in pairs}) > 20
    scores = [score for _, score in pairs if score is not None]
    assert scores == sorted(scores)


def test_over_several_tokens_only_kl_orders_as_the_product() -> None:
    """The limit of the proposition: (.9, .2) has the product .18, below that of (.5, .5), .25.

    KL agrees: log .18 < log .25. Total variation, 1 - q, has the means .45 and .5: it prefers
    the first.
    """
    uneven, even = (torch.tensor(q).double().log() for q in ([0.9, 0.2], [0.5, 0.5]))
    both = torch.tensor([True, True])

    def prefers_even(f: str) -> bool:
        one, other = critical_divergence(uneven, both, f), critical_divergence(even, both, f)
        assert one is not None
        assert other is not None
        return one < other

    assert prefers_even("kl")
    assert not prefers_even("total_variation")


# Proposition 3


def likelihood_gaps(model: Model) -> list[tuple[float, float]]:
    """Return (|difference of log p|, distance in embedding space) of all pairs, all masked."""
    joint = model.joint(SEQUENCES[0], (True,) * LENGTH)
    out = []
    for x, y in combinations(SEQUENCES, 2):
        gap = abs(math.log(joint[x]) - math.log(joint[y]))
        out.append((gap, model.norm(corner(x) - corner(y))))
    return out


def test_the_likelihood_ratio_is_bounded_by_the_semantic_distance(model: Model) -> None:
    """K is the steepest of the 351 pairs: all ratios are within exp(+-K d), one exactly on it."""
    gaps = likelihood_gaps(model)
    steepest = max(gap / distance for gap, distance in gaps)
    ratios = [(math.exp(gap), math.exp(steepest * distance)) for gap, distance in gaps]
    assert all(1 / bound <= 1 / ratio <= ratio <= bound * (1 + 1e-12) for ratio, bound in ratios)
    assert min(bound / ratio for ratio, bound in ratios) == pytest.approx(1)
    # The distances differ and the ratios are far from 1: the bound says something.
    assert max(ratio for ratio, _ in ratios) > 2


def test_a_smaller_constant_does_not_bound_the_ratio(model: Model) -> None:
    gaps = likelihood_gaps(model)
    smaller = 0.9 * max(gap / distance for gap, distance in gaps)
    assert any(gap > smaller * distance for gap, distance in gaps)


# Proposition 4


@pytest.fixture(scope="module")
def attractor(scripted: Callable[..., Denoiser]) -> Denoiser:
    """A model that knows one solution, 3 4 5, and rebuilds it wherever a token is masked."""
    logits = 60 * torch.nn.functional.one_hot(torch.tensor([0, 3, 4, 5]), 259).float()
    return scripted(lambda canvas: logits.expand(len(canvas.tokens), -1, -1))


@pytest.mark.parametrize("ratio", [0.2, 0.5, 0.9])
def test_a_model_of_one_solution_is_a_contraction_and_meets_the_bound_with_equality(
    attractor: Denoiser, ratio: float
) -> None:
    """A place becomes the solution's with chance g, or stays: T(z) = z* + (1 - g)(z - z*).

    So kappa = 1 - g and ||z - z*|| = ||z - T(z)|| / (1 - kappa). Here q has no extra token.
    """
    model = Model(attractor)
    star = corner((3, 4, 5))
    for tokens in SEQUENCES:
        image = torch.zeros(LENGTH, 3, dtype=torch.float64)
        for masked in PATTERNS:
            weight = ratio ** sum(masked) * (1 - ratio) ** (LENGTH - sum(masked))
            hidden = torch.tensor(masked)[:, None]
            image += weight * torch.where(hidden, model.predict(tokens, masked), corner(tokens))
        z = corner(tokens)
        assert torch.allclose(image, star + (1 - ratio) * (z - star), atol=1e-9)
        error, residual = model.norm(z - star), model.norm(z - image)
        assert error == pytest.approx(residual / (1 - (1 - ratio)), abs=1e-7)


def test_masked_whole_the_displacement_is_the_distance_to_the_solution(
    attractor: Denoiser,
) -> None:
    """At ratio 1 kappa is 0 and the bound an equality: RMS displacement x sqrt(3) = ||z - z*||."""
    settings = ConsistencySettings(mask_ratio=1.0, trips=1, rebuild_steps=3)
    for trips in round_trips(attractor, [answer(s) for s in SEQUENCES], settings):
        wrong = sum(a != b for a, b in zip(trips.sample.canvas, (3, 4, 5), strict=True))
        assert trips.displacement[0] * math.sqrt(3) == pytest.approx(math.sqrt(2 * wrong))


def contraction(model: Model, ratio: float, star: Tensor) -> float:
    """Return the measured kappa: the steepest pair among all sequences and the fixed point."""
    points = [*(corner(s) for s in SEQUENCES), star]
    images = [model.operator(p, ratio) for p in points]
    return max(
        model.norm(images[i] - images[j]) / model.norm(points[i] - points[j])
        for i, j in combinations(range(len(points)), 2)
    )


@pytest.mark.parametrize("ratio", [0.5, 0.9, 1.0])
def test_where_the_network_contracts_its_residual_bounds_the_distance(
    model: Model, ratio: float
) -> None:
    """The expected one-step operator in the model's own embedding space, over all sequences.

    With kappa 0 instead of the measured one the bound fails: it is not met for free.
    """
    star = model.fixed_point(ratio)
    assert model.norm(model.operator(star, ratio) - star) < 1e-9
    kappa = contraction(model, ratio, star)
    assert kappa < 1
    slack = []
    for tokens in SEQUENCES:
        z = corner(tokens)
        error, residual = model.norm(z - star), model.norm(z - model.operator(z, ratio))
        assert error <= residual / (1 - kappa) + 1e-9
        slack.append(residual - error)
    if ratio < 1:
        assert min(slack) < -1e-3


def test_the_mean_displacement_of_sampled_trips_bounds_the_distance_as_well(model: Model) -> None:
    """Rebuilt in one step at temperature 1, a trip is a draw whose mean is T(z).

    So its mean distance is at least ||z - T(z)|| (Jensen), and the bound holds for what
    `RoundTrips.displacement` measures: RMS over 3 tokens, hence the factor sqrt(3).
    """
    ratio, tokens, trips = 0.5, (5, 4, 3), 2000
    settings = ConsistencySettings(
        mask_ratio=ratio, trips=trips, rebuild_steps=1, rebuild_temperature=1.0
    )
    (made,) = round_trips(model.denoiser, [answer(tokens)], settings)
    share = torch.stack([(made.rebuilt == letter).double().mean(0) for letter in LETTERS], 1)
    image, star = model.operator(corner(tokens), ratio), model.fixed_point(ratio)
    assert (share - image).abs().max() < 4 * 0.5 / math.sqrt(trips)
    moved = math.sqrt(3) * sum(made.displacement) / trips
    assert moved >= model.norm(corner(tokens) - image)
    kappa = contraction(model, ratio, star)
    assert model.norm(corner(tokens) - star) <= moved / (1 - kappa)
