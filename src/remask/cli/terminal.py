"""What a terminal shows: scores as bars, answers painted by drift or doubt, progress.

Everything reads without colour as well: under a painted line stands a line of marks, one per
column, darker where more round trips failed to bring the token back, or where a probe would rather
see another. Text from outside is escaped before it is shown, so that no answer can move the cursor
or turn the reading order around.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.status import Status
from rich.text import Text

from remask import values

if TYPE_CHECKING:
    from remask.denoisers.tokenizer import Tokenizer
    from remask.values import Decision, Sample, Score
    from remask.verifier.threshold import ScoreThreshold

# A token, or the tokens of one character, and their drift or doubt.
Span = tuple[str, float | None]

_SCALE = (  # drift up to and including, mark, style
    (0.0, " ", "green"),
    (0.25, ".", "yellow"),
    (0.5, "-", "dark_orange"),
    (0.75, "=", "red"),
    (1.0, "#", "bold red"),
)
_UNKNOWN = ("?", "dim")
_VERDICTS = {  # what a line says of the threshold, its style
    "trust": ("trust, above {}", "bold green"),
    "undecided": ("undecided, within one standard error of {}", "bold yellow"),
    "doubt": ("doubt, not above {}", "bold yellow"),
}
LEGEND = "lost in round trips: . up to 25 %  - 50 %  = 75 %  # 100 %  ? never masked"
DOUBT_LEGEND = "chance of another token: . up to 25 %  - 50 %  = 75 %  # 100 %  ? not read"


def escape(text: str) -> str:
    """Return `text` with everything a terminal might obey written out, line breaks included."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def paragraph(text: str) -> str:
    """Return `text` escaped, its line breaks kept."""
    return "\n".join(escape(line) for line in text.split("\n"))


def spans(tokenizer: "Tokenizer", ids: Sequence[int], drift: Sequence[float | None]) -> list[Span]:
    """Return what each token reads as with its drift; of those that share a character the worst.

    Without round trips there is no drift.
    """
    out: list[Span] = []
    for text, lost in zip(tokenizer.texts(ids), drift or [None] * len(ids), strict=True):
        if text:
            out.append((text, lost))
        elif out and lost is not None:
            before, worst = out[-1]
            out[-1] = (before, lost if worst is None else max(worst, lost))
    return out


def doubts(logp: Sequence[float | None]) -> list[float | None]:
    """Return the chance of another token at each place, in whole percents; None: not read."""
    return [None if x is None else round(1 - math.exp(x), 2) for x in logp]


def drift_lines(tokens: Iterable[Span], width: int) -> Iterator[tuple[Text, Text]]:
    """Yield the answer line by line: its tokens, and the marks to stand beneath them."""
    words, marks = Text(), Text()
    for text, drift in tokens:
        mark, style = _look(drift)
        for part, last in _parts(text, width):
            if words.cell_len + cell_len(part) > width:
                yield words, marks
                words, marks = Text(), Text()
            words.append(part, style)
            marks.append(mark * cell_len(part), style)
            if last:
                yield words, marks
                words, marks = Text(), Text()
    if words:
        yield words, marks


def _look(drift: float | None) -> tuple[str, str]:
    """Return the mark and the style of a drift."""
    if drift is None:
        return _UNKNOWN
    return next((mark, style) for most, mark, style in _SCALE if drift <= most)


def _parts(text: str, width: int) -> Iterator[tuple[str, bool]]:
    """Yield a token in pieces that fit a line, and whether a line break follows."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        broken = number < len(lines) - 1
        shown = escape(line) + ("↵" if broken else "")
        cut = [shown[i : i + width // 2] for i in range(0, len(shown), width // 2)]  # 2 cells each
        for i, part in enumerate(cut):
            yield part, broken and i == len(cut) - 1


def show_drift(console: Console, tokens: Iterable[Span], legend: str = LEGEND) -> None:
    """Print an answer painted by drift, with marks beneath and the legend."""
    for words, marks in drift_lines(tokens, max(console.width, 20)):
        show(console, words)
        if marks.plain.strip():
            show(console, marks)
    show(console, Text(legend, style="dim"))


def show(console: Console, line: Text | str) -> None:
    """Print a line as it is: no wrapping, no markup, no guessing at numbers."""
    console.print(line, soft_wrap=True, markup=False, highlight=False, emoji=False)


def bar(console: Console, value: float, width: int = 20) -> str:
    """Return a value of 0..1 as a bar; values outside, as some metrics have, are cut off."""
    full = round(min(max(value, 0.0), 1.0) * width)
    solid, empty = ("#", ".") if console.options.ascii_only else ("━", "╌")
    return solid * full + empty * (width - full)


def show_metrics(console: Console, metrics: Mapping[str, float]) -> None:
    """Print one line per metric: name, bar, number."""
    for name, value in metrics.items():
        show(console, f"  {name:<22}{bar(console, value)}  {value:.3f}")


def say(line: str) -> None:
    """Print one escaped line on standard output."""
    show(Console(), escape(line))


def score_text(score: "Score", threshold: float | None = None) -> str:
    """Return a score as "0.812 ± 0.031", or why there is none."""
    if score.value is None:
        return f"no score ({score.reason})"
    error = "" if score.stderr is None else f" ± {score.stderr:.3f}"
    return values.score_text(score.value, threshold) + error


def show_question(prompt: str, problem_id: str) -> None:
    """Print a problem that was drawn."""
    console = Console()
    show(console, Text(problem_id, style="dim"))
    show(console, paragraph(prompt) + "\n")


def show_attempt(
    sample: "Sample", score: "Score", threshold: "ScoreThreshold", answer: str | None
) -> None:
    """Print one line about an attempt of rejection sampling."""
    limit = threshold.value
    assert limit is not None
    accepted = score.exceeds(limit)
    side = f"above {limit:.10g}, accepted" if accepted else f"not above {limit:.10g}"
    verdict = threshold.verdict(score)
    side += "" if verdict == "unknown" else f", {verdict}"
    result = "no final result" if answer is None else f"result {escape(answer)}"
    line = f"attempt {sample.number + 1:<3}{score_text(score, limit)}  {side}  ({result})"
    show(Console(), Text(line, style="green" if accepted else "yellow"))


def show_decision(
    decision: "Decision", threshold: "ScoreThreshold", answer: str | None, graded: Mapping[str, Any]
) -> None:
    """Print the chosen answer, why it was chosen, and what it cost."""
    console = Console()
    show(console, "\n" + paragraph(decision.sample.text) + "\n")
    _show_result(console, answer, graded)
    written = sum(sample.forwards for sample, _ in decision.attempts)
    show(console, f"{decision.action}: {decision.reason}")
    show(console, f"threshold {threshold.value:.10g}: {threshold.source}")
    _show_reason(console, decision.score)
    show(
        console,
        f"cost: {decision.forwards:,} forwards, {written:,} to write and "
        f"{decision.forwards - written:,} to verify",
    )


def show_verdict(
    score: "Score",
    threshold: "ScoreThreshold",
    tokens: Iterable[Span],
    answer: str | None,
    graded: Mapping[str, Any],
) -> None:
    """Print an answer painted by drift or doubt, its score by metric and the verdict."""
    console = Console()
    if score.drift or score.logp:
        show_drift(console, tokens, LEGEND if score.drift else DOUBT_LEGEND)
    else:  # nothing was masked
        show(console, paragraph("".join(text for text, _ in tokens)))
    show(console, "")
    _show_result(console, answer, graded)
    show_metrics(console, score.by_metric)
    show(console, _verdict(score, threshold))
    _show_reason(console, score)
    settled = f", settled at stage {escape(score.stage)}" if score.stage else ""
    passes = "forward" if score.forwards == 1 else "forwards"
    show(console, f"cost: {score.forwards:,} {passes}{settled}")


def _verdict(score: "Score", threshold: "ScoreThreshold") -> Text:
    """Return a score with its verdict, as one line."""
    if score.value is None:
        return Text(f"{score_text(score)}: unknown", style="bold yellow")
    line = f"score {score_text(score, threshold.value)}"
    verdict = threshold.verdict(score)
    if verdict == "unknown":
        return Text(f"{line} by {score.scorer}: {threshold.reason}", style="bold")
    words, style = _VERDICTS[verdict]
    source = f"the threshold {threshold.value:.10g} ({threshold.source})"
    return Text(f"{line}: {words.format(source)}", style=style)


def _show_reason(console: Console, score: "Score") -> None:
    """Print why the score of a fit is no probability, where it is none."""
    if score.value is not None and score.reason:
        show(console, f"no probability: {escape(score.reason)}")


def _show_result(console: Console, answer: str | None, graded: Mapping[str, Any]) -> None:
    line = "result: " + ("none could be read" if answer is None else escape(answer))
    if graded:
        steps = ", by a wrong step" if graded["process_ok"] is False else ""  # None: not known
        truth = f"right{steps}" if graded["right"] else f"wrong, it is {escape(graded['gold'])}"
        line += f" ({truth})"
    show(console, line)


def show_models(models: Sequence[Mapping[str, Any]]) -> None:
    """Print the models known by name, and how others are named."""
    console = Console()
    heads = f"{'parameters':>12}{'bfloat16':>11}{'memory':>10}{'presets':>9}"
    wide, wider = (1 + max(len(row[name]) for row in models) for name in ("family", "model"))
    show(console, f"{'model':<{wider}}{'family':<{wide}}{heads}")
    for row in models:
        num = row["parameters"]
        count = "not installed" if num is None else f"{num / 1e6:,.1f} M"
        weights, memory = (_size(row[name]) for name in ("bfloat16_gb", "memory_gb"))
        names = f"{row['model']:<{wider}}{row['family']:<{wide}}"
        show(console, f"{names}{count:>12}{weights:>11}{memory:>10}{row['presets']:>9}")
    show(console, "memory is the weights and what verifying one answer takes, on a GPU, estimated")
    show(
        console, "remask models ID shows the presets of one, remask doctor ID whether it fits here"
    )
    show(console, "any folder or hub id of these architectures loads too")


def _size(gigabytes: float | None) -> str:
    """Return a size as text; small ones in megabytes."""
    if gigabytes is None:
        return ""
    return f"{gigabytes:.1f} GB" if gigabytes >= 1 else f"{1000 * gigabytes:.0f} MB"


def show_model(facts: Mapping[str, Any]) -> None:
    """Print one published model and how its authors sample it, grouped by source."""
    console = Console()
    num, memory = facts["parameters"] / 1e6, _size(facts["bfloat16_gb"])
    terms = f"context {facts['context']:,}, licence {facts['licence'] or 'not checked'}"
    show(console, f"{facts['model']}: {facts['family']} ({facts['architecture']})")
    show(console, f"  {num:,.1f} M parameters, {memory} in bfloat16, {terms}")
    further = facts["resampling"]
    show(console, f"  greedy presets: samples after the first at {further['temperature']:g}")
    show(console, f"    source: {further['source']}")
    if not facts["presets"]:
        show(console, "its authors publish no settings that we know of")
    source = None
    for preset in facts["presets"]:
        if preset["source"] != source:
            source = preset["source"]
            show(console, f"\nfrom {source}")
        accuracy = "" if preset["accuracy"] is None else f"{preset['accuracy']:.1f} %"
        show(console, f"  {preset['task']:<36}{accuracy:>8}  {preset['prompt']}".rstrip())
        show(console, f"    {_listed(preset['settings'])}")
        if preset["unsupported"]:
            show(console, f"    unsupported: {_listed(preset['unsupported'])}")
    if facts["presets"]:
        show(console, "\n--preset NAME asks for one; accuracies are their authors' own")


def _listed(settings: Mapping[str, Any]) -> str:
    """Return settings as name=value, without those that are off."""
    given = settings.items()
    return " ".join(f"{n}={v}" for n, v in given if v is not False and v is not None)


def show_estimate(facts: Mapping[str, Any]) -> None:
    """Print what a model would take here and whether it fits."""
    console = Console()
    num = f"{facts['parameters'] / 1e6:,.1f} M parameters"
    show(console, f"{escape(facts['model'])}: {num}, known from {facts['known_from']}")
    show(console, f"  weights in {facts['dtype']:<18}{_size(facts['weights_gb']):>10}")
    show(console, f"  in all, to verify one answer {_size(facts['one_answer_gb']):>10}")
    show(console, f"  in all, for full batches     {_size(facts['full_batches_gb']):>10}")
    for form, needs in facts["packed"].items():
        line = f"  weights with --weights {form:<6}{_size(needs['weights_gb']):>10}"
        show(console, f"{line}, in all {_size(needs['one_answer_gb'])} to verify one answer")
    free = "unknown" if facts["free_gb"] is None else f"{facts['free_gb']:.1f} GB"
    show(console, f"  free on {facts['device']:<21}{free:>10}")
    advice = "" if facts["advice"] is None else f": {facts['advice']}"
    verdict = {
        "yes": "it fits",
        "small batches": f"it fits with small batches{advice}",
        "no": f"it does not fit{advice}",
        "unknown": f"whether it fits is unknown{advice}",
    }.get(facts["fits"], f"it {facts['advice']}")
    style = "green" if facts["fits"] == "yes" else "yellow"
    show(console, Text(verdict, style=style))


def show_examination(facts: Mapping[str, Any]) -> None:
    """Print what `doctor` reports, one fact per line."""
    console = Console()
    show(console, f"remask {facts['remask']}, Python {facts['python']}, {facts['platform']}")
    for name, version in facts["packages"].items():
        show(console, f"  {name:<24}{version or 'not installed'}")
    if "device" in facts:
        _show_device(console, facts)
    there = "is there: try remask demo" if facts["embedded_model"] else "is missing; reinstall"
    show(console, f"the embedded model {there}")
    for extra, state in facts["extras"].items():
        missing = ", ".join(state["missing"])
        status = f"lacks {missing}: {state['install']}" if missing else "installed"
        show(console, f"  extra {extra:<10}{status}")


def _show_device(console: Console, facts: Mapping[str, Any]) -> None:
    """Print where models would run."""
    show(console, f"device auto is {facts['device']}, dtype auto is {facts['dtype']}")
    gpu = facts["free_gpu_memory_gb"]
    more = "" if gpu is None else f", {gpu} GB on the GPU"
    show(
        console,
        f"{facts['cpu_threads']} CPU threads, {facts['free_memory_gb']} GB free{more}",
    )
    show(console, f"generated programs: {facts['programs']}")


def waiting(what: str) -> Status:
    """Return a spinner for standard error, to be entered while something loads."""
    return Console(stderr=True).status(escape(what))


class _Rates(ProgressColumn):
    """Rows and forward passes per second of this run."""

    def render(self, task: Task) -> Text:
        seconds, fields = task.elapsed, task.fields
        if not seconds or fields["before"] in (None, task.completed):
            return Text("")
        rows = (task.completed - fields["before"]) / seconds
        forwards = fields["forwards"] / seconds
        rates = f"{rows:.2g} {fields['unit']}/s"
        return Text(rates + (f", {forwards:.3g} forwards/s" if forwards else ""))


class Bar:
    """A progress bar on standard error; `advance_to` moves it."""

    def __init__(self, what: str, total: int, unit: str) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rates(),
            TimeRemainingColumn(), console=Console(stderr=True, highlight=False),
        )  # fmt: skip
        self.task = self.progress.add_task(what, total=total, unit=unit, before=None, forwards=0)

    def __enter__(self) -> "Bar":
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def advance_to(self, done: int, forwards: int = 0) -> None:
        """Show that `done` are finished, for `forwards` forward passes of this run."""
        task = self.progress.tasks[0]
        before = done if task.fields["before"] is None else task.fields["before"]
        self.progress.update(self.task, completed=done, forwards=forwards, before=before)
