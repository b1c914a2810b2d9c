"""What is collected: for every file of records the problems, the samples and what scores them.

`tried`        shapes of the canvas on validation, nothing scored
`validation`   one labelled answer of each, for fits and thresholds
`greedy`       one answer to every test problem, with every score there is
`pools`        ten samples of the first problems; one benchmark has all of them scored
`curves`       one benchmark's first problems again, with other settings of the round trips
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from remask.analysis.folder import CURVES, MANY_TRIPS, TRIPS
from remask.collect.settings import FREE_BASELINES, OPTIONAL_BASELINES, CollectSettings
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.errors import InputError
from remask.records.manifest import Manifest
from remask.sampling.settings import sampler_settings
from remask.verifier.columns import LABEL_FREE_PROBES
from studies.language.problems import BENCHMARKS, ProblemSet, test_set, validation_set

PARTS = ("validation", "greedy", "pools", "curves")
ORDER = ("svamp", "mawps", "gsm8k")  # the short ones first: a lost machine loses little
SEED = 11
POOL = 10
TRIED = 384  # problems of validation that a shape is tried on: whole chunks for all processes
POOLED = 500  # problems of a benchmark that have pools
CURVED = 300  # problems of the curves
SCORED = "svamp"  # the benchmark of rejection sampling and of the curves
BLOCKS = (4, 32)  # the last is the preset's
SHARDS = 8  # of a file at most, whatever the number of processes
ROUNDS = 2  # chunks of a shard at most: what a kill costs is one of them
LEAST = 48  # answers of a chunk, so that a pass keeps a GPU busy
# None of these asks the model in words; the editor is of models that were trained to edit.
RIVALS = tuple(name for name in OPTIONAL_BASELINES if name not in ("editor", "self_evaluation"))
EVERY_RIVAL = ("self_evaluation", *RIVALS)
_CURVES = ("mask_ratio", "rebuild_steps")


class Shape(NamedTuple):
    """How an answer is written: tokens of the canvas, tokens a step, and tokens of a block.

    A small block makes an answer be written from left to right, block by block.
    """

    canvas: int
    rate: int
    block: int

    def __str__(self) -> str:
        """Return it as flags and names have it."""
        return f"{self.canvas}x{self.rate}x{self.block}"

    @staticmethod
    def parse(text: str) -> "Shape":
        """Return the shape of a text such as 96x2x8."""
        parts = text.split("x")
        if len(parts) != 3 or not all(part.isdecimal() and int(part) for part in parts):
            raise InputError(f"shape {text!r} is not of the form CANVASxRATExBLOCK; write 96x2x8.")
        return Shape(*map(int, parts))

    @property
    def steps(self) -> int:
        """Forward passes of a whole canvas."""
        return self.canvas // self.rate


# Four tokens a step made a first model less often right on short problems (docs/LOG.md).
_PACES = tuple((rate, block) for block in BLOCKS for rate in (1, 2))
SHAPES = {  # that validation chooses from
    "gsm8k": tuple(Shape(canvas, *pace) for canvas in (96, 128) for pace in _PACES),
    "svamp": tuple(Shape(canvas, *pace) for canvas in (32, 64) for pace in _PACES),
    "mawps": tuple(Shape(canvas, *pace) for canvas in (32, 64) for pace in _PACES),
}


@dataclass(frozen=True, kw_only=True)
class Job:
    """One file of records."""

    name: str
    source: ProblemSet
    problems: int
    shape: Shape
    samples: int = 1
    scored: int = 1
    baselines: tuple[str, ...] = FREE_BASELINES
    probes: tuple[str, ...] = ()
    trips: Mapping[str, Any] = field(default_factory=dict)  # settings that are not the defaults

    @property
    def chunk(self) -> int:
        """Problems between two writes, as many in each shard where they suffice."""
        rounds = min(ROUNDS, max(1, self.problems * self.samples // (SHARDS * LEAST)))
        return max(-(-LEAST // self.samples), -(-self.problems // (SHARDS * rounds)))

    @property
    def shards(self) -> int:
        """Into how many it is cut."""
        return min(SHARDS, -(-self.problems // self.chunk))

    def asked(self) -> dict[str, Any]:
        """Return what decides the records, model aside, by the names that `noted` has it by."""
        shape = self.shape
        return {
            "task": self.source.task, "split": self.source.split, "sha256": self.source.sha256(),
            "seed": SEED, "samples": self.samples, "scored": self.scored,
            "baselines": [*dict.fromkeys((*FREE_BASELINES, *self.baselines))],
            "probes": [*self.probes], "length": shape.canvas, "steps": shape.steps,
            "block": shape.block,
            **asdict(ConsistencySettings(**self.trips)),
        }  # fmt: skip

    def settings(self, model: Denoiser) -> CollectSettings:
        """Return what remask is to collect."""
        shape = self.shape
        return CollectSettings(
            task=self.source.task, data=self.source.path, split=self.source.split,
            problems=self.problems, samples=self.samples, scored=self.scored,
            baselines=self.baselines, probes=self.probes, metrics="core", seed=SEED,
            consistency=ConsistencySettings(**self.trips), chunk=self.chunk,
            sampler=sampler_settings(
                model, kind=self.source.task, length=shape.canvas, steps=shape.steps,
                block=shape.block,
            ),
        )  # fmt: skip


def noted(manifest: Manifest) -> dict[str, Any]:
    """Return what records were collected with, under the names of `Job.asked`, and more."""
    sha256 = (manifest.dataset or {}).get("sha256")
    return {**manifest.settings, **manifest.sampler, **manifest.consistency, "sha256": sha256}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Where the problems are, how they are answered, and how many at most."""

    data: Path
    out: Path
    shapes: Mapping[str, Shape] = field(default_factory=dict)  # by benchmark, as chosen
    most: int | None = None  # problems of any file; None: as many as there are

    def size(self, source: ProblemSet, wanted: int | None = None) -> int:
        """Return how many problems of a set are asked."""
        limits = [n for n in (source.size(), wanted, self.most) if n is not None]
        return min(limits)

    def jobs(self, part: str) -> list[Job]:
        """Return the files of a part, in the order in which they are made."""
        make = {"validation": self._validation, "greedy": self._greedy,
                "pools": self._pools, "curves": self._curves}[part]  # fmt: skip
        return list(make())

    def tried(self, shapes: Mapping[str, tuple[Shape, ...]]) -> list[Job]:
        """Return the files that a shape is chosen on."""
        return [
            Job(
                name=tried_name(name, shape), source=validation_set(self.out, name), shape=shape,
                problems=self.size(validation_set(self.out, name), TRIED), scored=0,
            )
            for name in ORDER
            for shape in shapes[name]
        ]  # fmt: skip

    def _validation(self) -> Iterator[Job]:
        for name in ORDER:
            source = validation_set(self.out, name)
            yield Job(
                name=f"validation-{name}", source=source, problems=self.size(source),
                shape=self.shapes[name], baselines=RIVALS, probes=LABEL_FREE_PROBES,
            )  # fmt: skip

    def _greedy(self) -> Iterator[Job]:
        for name in ORDER:
            source = test_set(self.data, name)
            yield Job(
                name=name, source=source, problems=self.size(source), shape=self.shapes[name],
                baselines=EVERY_RIVAL, probes=LABEL_FREE_PROBES,
            )  # fmt: skip

    def _pools(self) -> Iterator[Job]:
        for name in ORDER:
            source, whole = test_set(self.data, name), name == SCORED
            yield Job(
                name=pool_name(name), source=source, problems=self.size(source, POOLED),
                shape=self.shapes[name], samples=POOL, scored=POOL if whole else 0,
                probes=LABEL_FREE_PROBES if whole else (),
            )  # fmt: skip

    def _curves(self) -> Iterator[Job]:
        source = test_set(self.data, SCORED)
        for name, trips in curve_settings().items():
            yield Job(
                name=name, source=source, problems=self.size(source, CURVED),
                shape=self.shapes[SCORED], trips=trips,
            )  # fmt: skip


def curve_settings() -> dict[str, dict[str, Any]]:
    """Return the changed setting of the round trips of each point of the curves, by file."""
    numbers = {
        name: {setting: float(value) if setting == "mask_ratio" else int(value)}
        for name, (setting, value) in CURVES.items()
        if setting in _CURVES
    }
    return {**numbers, MANY_TRIPS: {"trips": max(TRIPS)}}


def pool_name(benchmark: str) -> str:
    """Return the file of a benchmark's pools."""
    return f"pool-{benchmark}"


def tried_name(benchmark: str, shape: Shape) -> str:
    """Return the file of a shape that is tried."""
    return f"tried-{benchmark}-{shape}"


assert set(ORDER) == set(BENCHMARKS)
