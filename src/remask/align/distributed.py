"""Communication between the ranks of a training, through accelerate; often there is only one.

Each rank has its own prompts; the gradient is the sum over ranks, so two ranks learn the same as
one, up to rounding. Each rank has all adapters; full weights are divided, see `sharding`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from remask.align.settings import AlignSettings, record
from remask.align.trackers import PROJECT, find_trackers, folder_of, measures, plain
from remask.denoisers.devices import choose_device
from remask.errors import EngineError, MissingExtra, RemaskError, SettingsError, brief

_T = TypeVar("_T")
BUCKET = 2**26  # numbers per reduction of gradients: 256 MB


class Distributed:
    """The ranks of a training, seen from one of them."""

    def __init__(self, settings: AlignSettings) -> None:
        try:
            from accelerate import Accelerator
        except ImportError:
            raise MissingExtra("accelerate", "align") from None
        wanted = choose_device(settings.device)
        self._settings = settings
        self._accelerator: Any = Accelerator(
            cpu=wanted.type == "cpu",
            log_with=find_trackers(settings.track) or None,
            project_dir=folder_of(settings.out),
        )
        self.size: int = self._accelerator.num_processes
        self.rank: int = self._accelerator.process_index
        self.device = wanted if self.size == 1 else torch.device(self._accelerator.device)

    @property
    def is_sharded(self) -> bool:
        """Whether the weights are divided over the processes."""
        return self._settings.is_sharded(self.size)

    @property
    def is_main_process(self) -> bool:
        """Whether this rank writes files and reports."""
        return self.rank == 0

    def share(self, num: int, what: str) -> range:
        """Return the numbers below `num` of this rank."""
        check_share(num, self.size, what)
        return range(self.rank, num, self.size)

    def sums(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return the sums over ranks; all ranks must pass the same names."""
        if self.size == 1:
            return dict(values)
        names = sorted(values)
        row = torch.tensor([values[n] for n in names], dtype=torch.float64, device=self.device)
        total: Tensor = self._together(lambda: self._accelerator.reduce(row, "sum"))
        return dict(zip(names, total.tolist(), strict=True))

    def largest(self, number: int) -> int:
        """Return the largest number of any rank."""
        return max(self.gather([number]))

    def gather(self, rows: Sequence[_T]) -> list[_T]:
        """Return the rows of all ranks, in rank order."""
        if self.size == 1:
            return list(rows)
        from accelerate.utils import gather_object

        return self._together(lambda: list(gather_object(list(rows))))

    @torch.no_grad()
    def add_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace gradients by their sums over ranks, in buckets; missing gradients become 0.

        Gradients of a sharded network are sums already.
        """
        several = list(parameters)
        for p in several:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        if self.size == 1 or self.is_sharded:
            return
        for bucket in _buckets([p.grad for p in several if p.grad is not None]):
            flat = torch.cat([gradient.flatten() for gradient in bucket])
            total = self._together(partial(self._accelerator.reduce, flat, "sum"))
            for gradient, part in zip(
                bucket, total.split([g.numel() for g in bucket]), strict=True
            ):
                gradient.copy_(part.view_as(gradient))

    def on_main(self, call: Callable[[], object]) -> None:
        """Make a call on rank 0 and wait for it; if it raises, all ranks raise."""
        failure: RemaskError | None = None
        if self.is_main_process:
            try:
                call()
            except RemaskError as error:
                failure = error
        told = self.gather([] if failure is None else [str(failure)])
        if failure is not None:
            raise failure
        if told:
            raise EngineError(told[0])

    def wait(self) -> None:
        """Wait for all ranks."""
        self._together(self._accelerator.wait_for_everyone)

    def _together(self, call: Callable[[], _T]) -> _T:
        """Return the result of a collective call, or raise if another rank has ended."""
        try:
            return call()
        except RuntimeError as error:
            raise EngineError(
                f"Rank {self.rank} of {self.size} lost contact with another rank "
                f"({brief(error) or 'no answer'}). Restart all ranks with --resume."
            ) from error

    def start_trackers(self, update: int) -> None:
        """Start trackers at an update; TensorBoard hides older values of later updates."""
        s = self._settings
        named = {
            "tensorboard": {"purge_step": update + 1},
            "wandb": {"name": s.out.name, "dir": str(s.out)},
        }
        self._accelerator.init_trackers(PROJECT, plain(record(s)), named)

    def track(self, row: Mapping[str, Any]) -> None:
        """Send a row of the log to the trackers."""
        self._accelerator.log(measures(row), step=row["step"])

    def leave(self) -> None:
        """Close the trackers and the connections between ranks."""
        self._accelerator.end_training()


def check_share(num: int, processes: int, what: str) -> None:
    """Raise if the ranks would have different shares."""
    if num % processes:
        raise SettingsError(
            f"{what} must be a multiple of the number of processes ({processes}), got {num}."
        )


def _buckets(gradients: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Yield groups of gradients with at most `BUCKET` numbers; a larger one alone."""
    bucket: list[Tensor] = []
    for gradient in gradients:
        if bucket and sum(g.numel() for g in bucket) + gradient.numel() > BUCKET:
            yield bucket
            bucket = []
        bucket.append(gradient)
    if bucket:
        yield bucket
