"""Requests as rows, driven by hand: what comes out is what the library gives."""

from collections.abc import Sequence
from typing import Any

import pytest

from remask import api
from remask.consistency.roundtrips import Consistency
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser
from remask.sampling.drafts import begin
from remask.sampling.settings import SamplerSettings
from remask.serve.programs import (
    OutOfTime,
    Program,
    draw,
    draw_needs,
    solve,
    trip_row,
    verify,
    verify_needs,
)

HOW = SamplerSettings(length=8, steps=4, block=4, temperature=1.0)
TRIPS = ConsistencySettings(trips=2, rebuild_steps=2)
PROMPT = "What is 1 + 2?"


def drive(model: Denoiser, program: Program[Any]) -> tuple[Any, list[list[str]]]:
    """Run every row alone; return the result, and the kinds of rows asked for."""
    kinds, results = [], None
    while True:
        try:
            rows = next(program) if results is None else program.send(results)
        except StopIteration as end:
            return end.value, kinds
        kinds.append([row.kind for row in rows])
        results = [row.run(model, [row.value])[0] for row in rows]


@pytest.fixture
def scorer(llada: NativeDenoiser) -> Consistency:
    return api.consistency(llada, settings=TRIPS, metrics="core", seed=5)


def draft_of(model: Denoiser, number: int = 0) -> Any:
    ids = model.tokenizer.render(PROMPT)
    return begin(model, ids, HOW, item=api.item_of(PROMPT), number=number, seed=5)


def test_draw_asks_for_a_block_of_each_answer_at_a_time(llada: NativeDenoiser) -> None:
    events: list[tuple[str, Any]] = []
    program = draw(llada, [draft_of(llada, n) for n in (0, 1)], lambda *event: events.append(event))
    samples, kinds = drive(llada, program)
    known = [api.sample(llada, PROMPT, settings=HOW, number=n, seed=5) for n in (0, 1)]
    assert [s.canvas for s in samples] == [s.canvas for s in known]
    assert kinds[0] == ["block", "block"]
    assert len(events) == sum(map(len, kinds))


def test_verify_asks_for_all_trips_and_then_for_the_metrics(
    llada: NativeDenoiser, scorer: Consistency
) -> None:
    samples = [api.sample_from_text(llada, PROMPT, text) for text in ("3", "It is 4.")]
    verified, kinds = drive(llada, verify(samples, scorer, "number"))
    assert kinds == [["trip"] * 4, ["measure"] * 2]
    for result, sample in zip(verified, samples, strict=True):
        known = api.score(llada, PROMPT, sample, settings=TRIPS, metrics="core", seed=5)
        assert result.score.value == pytest.approx(known.value, abs=1e-5)
        assert result.sample is sample


def test_another_scorer_is_handed_the_answers_themselves(llada: NativeDenoiser) -> None:
    other = api.find_scorer("editor", llada, [PROMPT])
    samples = [api.sample_from_text(llada, PROMPT, text) for text in ("3", "It is 4.")]
    verified, kinds = drive(llada, verify(samples, other, "number"))
    assert kinds == [["editor"] * 2]
    assert [v.score.scorer for v in verified] == ["editor"] * 2
    assert [v.score for v in verified] == [other.score([sample])[0] for sample in samples]
    assert [v.trips for v in verified] == [None] * 2


@pytest.mark.parametrize("threshold", [-1.0, 2.0])
def test_solve_stops_where_rejection_sampling_does(
    llada: NativeDenoiser, scorer: Consistency, threshold: float
) -> None:
    """Every score is above -1, so that the first answer is taken, and none above 2."""
    events: list[str] = []
    program = solve(
        llada, draft_of(llada), scorer, "number", threshold=threshold, budget=3,
        emit=lambda name, value: events.append(name),
    )  # fmt: skip
    (decision, attempts), _ = drive(llada, program)
    known = api.solve(
        llada, PROMPT, sampler=HOW, settings=TRIPS, metrics="core", threshold=threshold, budget=3,
        seed=5,
    )  # fmt: skip
    assert (decision.action, decision.reason) == (known.action, known.reason)
    assert decision.sample.canvas == known.sample.canvas
    assert decision.forwards == known.forwards
    assert len(attempts) == (1 if threshold < 0 else 3)
    assert events.count("attempt") == events.count("verification") == len(attempts)


def group(model: Denoiser, **changes: Any) -> Any:
    from dataclasses import replace

    from remask.consistency.roundtrips import TripInput

    sample = api.sample_from_text(model, PROMPT, "3")
    return trip_row(TripInput(sample, 0, 0), replace(TRIPS, **changes)).group


def test_trips_share_a_batch_where_only_their_number_differs(llada: NativeDenoiser) -> None:
    """Stratified masks look at how many there are, and may not."""
    assert group(llada, trips=2) == group(llada, trips=7)
    assert group(llada, rebuild_steps=3) != group(llada)
    design: dict[str, Any] = {"mask_design": "stratified"}
    assert group(llada, trips=2, **design) != group(llada, trips=7, **design)


def test_blocks_share_a_batch_whatever_their_length(llada: NativeDenoiser) -> None:
    from dataclasses import replace

    longer = replace(HOW, length=16, steps=8)
    hotter = replace(HOW, temperature=0.5)
    ids: Sequence[int] = llada.tokenizer.render(PROMPT)
    first, second, third = (begin(llada, ids, how, item="i") for how in (HOW, longer, hotter))
    assert first.block_settings == second.block_settings
    assert first.block_settings != third.block_settings


def stopped_after(model: Denoiser, program: Program[Any], num: int) -> Any:
    """Run so many rounds of a program, each row alone, and then say that it is out of time."""
    rows = next(program)
    for _ in range(num):
        rows = program.send([row.run(model, [row.value])[0] for row in rows])
    with pytest.raises(StopIteration) as end:
        program.throw(OutOfTime())
    return end.value.value


def test_solve_out_of_time_returns_the_best_attempt(
    llada: NativeDenoiser, scorer: Consistency
) -> None:
    """Each attempt takes at most two blocks, the trips and the metrics; the third is begun."""
    known = api.solve(
        llada, PROMPT, sampler=HOW, settings=TRIPS, metrics="core", threshold=2.0, budget=2, seed=5
    )
    events: list[str] = []
    rounds = 2 + sum(-(-s.num_response // HOW.block) + 1 for s, _ in known.attempts)
    program = solve(
        llada, draft_of(llada), scorer, "number", threshold=2.0, budget=9,
        emit=lambda name, value: events.append(name),
    )  # fmt: skip
    decision, attempts = stopped_after(llada, program, rounds)
    assert [a.sample.canvas for a in attempts] == [s.canvas for s, _ in known.attempts]
    assert decision.sample.canvas == known.sample.canvas
    assert decision.action == "fallback"
    assert decision.forwards == known.forwards
    assert "after 2 of 9 samples" in decision.reason


def test_solve_out_of_time_returns_an_answer_that_was_not_verified(
    llada: NativeDenoiser, scorer: Consistency
) -> None:
    events: list[str] = []
    known = api.sample(llada, PROMPT, settings=HOW, seed=5)
    program = solve(
        llada, draft_of(llada), scorer, "number", threshold=-1.0, budget=9,
        emit=lambda name, value: events.append(name),
    )  # fmt: skip
    rounds = -(-known.num_response // HOW.block)
    decision, (attempt,) = stopped_after(llada, program, rounds)
    assert decision.sample.canvas == known.canvas
    assert (decision.action, decision.score.value) == ("fallback", None)
    assert attempt.score.reason
    assert events[-2:] == ["attempt", "verification"]


def test_programs_without_an_answer_are_just_out_of_time(
    llada: NativeDenoiser, scorer: Consistency
) -> None:
    def emit(name: str, value: Any) -> None:
        pass

    sample = api.sample_from_text(llada, PROMPT, "3")
    programs: list[Program[Any]] = [
        solve(llada, draft_of(llada), scorer, "number", threshold=0.5, budget=2, emit=emit),
        draw(llada, [draft_of(llada)], emit),
        verify([sample], scorer, "number"),
    ]
    for program in programs:
        next(program)
        with pytest.raises(OutOfTime):
            program.throw(OutOfTime())


def test_needs_are_the_cost_of_all_rows(llada: NativeDenoiser, scorer: Consistency) -> None:
    """Of two answers: what their rows cost, and of drafts what all blocks cost."""
    samples = [api.sample_from_text(llada, PROMPT, text) for text in ("3", "It is 4.")]
    program = verify(samples, scorer, "number")
    trips = next(program)
    texts = program.send([row.run(llada, [row.value])[0] for row in trips])
    costs = [(rows[0].kind, sum(row.cost for row in rows)) for rows in (trips, texts)]
    assert verify_needs(samples, scorer) == costs
    draft = draft_of(llada)
    assert draw_needs([draft, draft]) == [("block", 2 * draft.num_columns * HOW.steps)]
    other = api.find_scorer("editor", llada, [PROMPT])
    columns = sum(len(s.prompt) + len(s.canvas) for s in samples)
    assert verify_needs(samples, other) == [("editor", columns)]
