"""Stories as they lie in `stories/*.txt`: numbers, what is told of them, and what can be asked.

    story gift
    words x=thing y=thing                     a word of a category for every place; see `cast`
    numbers s~any g~any e=s+g k~any           drawn, or following from others
    require s>g                               drawn again until it holds
    - {A} had {s x}. ~ {A} had some {x}.      told; after "~" where the number must not be told
    - {B} gave {him} {g more x}.              not told at all where it must not be
    + {He} also had {k y}.                    may be told: nobody needs it
    ? e=s+g | How many {x} does {A} have now? | {A} has {e x} now.
    ? c=s*g; e=c+k !t | ... | first step | second step      "!t": t must not be told either

A number is `s~any` (of any size, one size per story), `s~any<t`, `s=2..9`, `p=10|20|25` or an
expression of earlier ones. `[had|owned]` is one of the two.
"""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from remask.errors import InputError

FOLDER = Path(__file__).resolve().parent / "stories"
TOKEN = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, kw_only=True)
class StoryLine:
    """A sentence of a story."""

    text: str
    untold: str = ""  # what stands there where a number in it must not be told
    is_extra: bool = False

    def without(self, hidden: frozenset[str]) -> "StoryLine":
        """Return what of it may be told where some numbers must not be; its text may be empty."""
        return replace(self, text=self.untold) if names_in(self.text) & hidden else self


@dataclass(frozen=True, kw_only=True)
class StoryAsk:
    """One question about a story, with its solution."""

    steps: tuple[tuple[str, str], ...]  # a number, and the expression that gives it
    hidden: frozenset[str]
    text: str
    said: tuple[str, ...]  # a sentence for every step

    @property
    def secret(self) -> frozenset[str]:
        """The numbers that must not be told: what is worked out, and what is hidden besides."""
        return self.hidden | {name for name, _ in self.steps}

    @property
    def target(self) -> str:
        """The number that is asked for."""
        return self.steps[-1][0]


@dataclass(kw_only=True)
class StoryFrame:
    """A story without its words and numbers."""

    name: str
    kind: str  # the file it is in
    words: dict[str, str] = field(default_factory=dict)  # place -> category, or words parted by |
    numbers: dict[str, str] = field(default_factory=dict)  # name -> how it is drawn
    required: list[str] = field(default_factory=list)
    lines: list[StoryLine] = field(default_factory=list)
    asks: list[StoryAsk] = field(default_factory=list)


def names_in(text: str) -> frozenset[str]:
    """Return the names of everything that a sentence has a place for."""
    parts = (part for token in TOKEN.findall(text) for part in token.split())
    return frozenset(part.removeprefix("$") for part in parts)


def gaps(frame: StoryFrame) -> list[str]:
    """Return what is wrong with the questions of a story, each as a sentence; nothing if none is.

    What a solution needs must be told, what it gives must not, and nobody is "he" before a name.
    """
    wrong = []
    for ask in frame.asks:
        lines = [line.without(ask.secret).text for line in frame.lines if not line.is_extra]
        text = " ".join([*lines, ask.text])
        known = set(names_in(text))
        where = f"{frame.name}, {ask.text!r}"
        leaked = known & {name for name, _ in ask.steps if name in frame.numbers} - set(frame.words)
        wrong += [f"{where} tells {name}." for name in leaked]
        for name, formula in ask.steps:
            needed = set(re.findall(r"[a-z]\w*", formula))
            wrong += [f"{where} needs {gone}." for gone in sorted(needed - known)]
            known.add(name)
        pronoun = re.search(r"\{[Hh](?:e|is|im)\}", text)
        if pronoun and "{A" not in text[: pronoun.start()]:
            wrong.append(f"{where} says he before a name.")
    return wrong


def read_stories(folder: Path = FOLDER) -> list[StoryFrame]:
    """Return all stories, in the order of the files."""
    frames = [frame for path in sorted(folder.glob("*.txt")) for frame in read_story_file(path)]
    if not frames:
        raise InputError(f"{folder} has no story; put .txt files there.")
    return frames


def read_story_file(path: Path) -> list[StoryFrame]:
    """Return the stories of one file, or raise with the line that is wrong."""
    frames: list[StoryFrame] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        where = f"{path.name} line {number}"
        if line.startswith("story "):
            frames.append(StoryFrame(name=line.removeprefix("story ").strip(), kind=path.stem))
        elif not frames:
            raise InputError(f"{where} is before the first story; begin with 'story NAME'.")
        else:
            _take(frames[-1], line, where)
    return frames


def _take(frame: StoryFrame, line: str, where: str) -> None:
    """Add one line of a file to a story."""
    head, _, rest = line.partition(" ")
    match head:
        case "words":
            frame.words |= dict(_pair(part, "=", where) for part in rest.split())
        case "numbers":
            for part in rest.split():
                name = re.match(r"\w+", part)
                if name is None or part[name.end() : name.end() + 1] not in ("=", "~"):
                    raise InputError(f"{where}: {part!r} is no number; write s~any or s=2..9.")
                frame.numbers[name.group()] = part[name.end() :]
        case "require":
            frame.required.append(rest)
        case "-" | "+":
            text, *untold = re.split(r" ~(?: |$)", rest)
            extra = head == "+"
            frame.lines.append(
                StoryLine(text=text, untold=untold[0] if untold else "", is_extra=extra)
            )
        case "?":
            frame.asks.append(_ask(rest, where))
        case _:
            raise InputError(f"{where} begins with {head!r}; use words, numbers, -, + or ?.")


def _ask(rest: str, where: str) -> StoryAsk:
    """Return what a line with a question says."""
    formula, *texts = (part.strip() for part in rest.split(" | "))
    hidden = frozenset(re.findall(r"!(\w+)", formula))
    parts = re.sub(r"!\w+", "", formula).split(";")
    steps = tuple(_pair(part.strip(), "=", where) for part in parts)
    if len(texts) != 1 + len(steps):
        raise InputError(f"{where} has {len(texts) - 1} sentences for {len(steps)} steps.")
    return StoryAsk(steps=steps, hidden=hidden, text=texts[0], said=tuple(texts[1:]))


def _pair(part: str, sign: str, where: str) -> tuple[str, str]:
    name, found_sign, value = part.partition(sign)
    if not found_sign or not name.strip() or not value.strip():
        raise InputError(f"{where}: {part!r} is not of the form name{sign}value.")
    return name.strip(), value.strip()
