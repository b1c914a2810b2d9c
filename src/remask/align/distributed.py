"""The processes that train together, through accelerate; often there is only one.

Each process has its own prompts and adds up the gradient of its completions; the sums of all are
the gradient. What two processes learn is what one does, up to the order of a sum. Adapters are
whole in each process; where all weights learn they are divided, see `sharding`.
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
BUCKET = 2**26  # gradients that are summed at once: 256 MB


class Distributed:
    """What one process needs to know of the others."""

    def __init__(self, settings: AlignSettings) -> None:
        try:
            from accelerate import Accelerator
        except ImportError:
            raise MissingExtra("accelerate", "align") from None
        wanted = choose_device(settings.device)
        self._settings = settings
        self._accelerator: Any = Accelerator(
            cpu=wanted.type == "cpu", log_with=find_trackers(settings.track) or None,
            project_dir=folder_of(settings.out),
        )  # fmt: skip
        self.size: int = self._accelerator.num_processes
        self.rank: int = self._accelerator.process_index
        self.device = wanted if self.size == 1 else torch.device(self._accelerator.device)

    @property
    def is_sharded(self) -> bool:
        """Whether the weights are divided over the processes."""
        return self._settings.is_sharded(self.size)

    @property
    def is_main_process(self) -> bool:
        """Whether this is the process that writes files and speaks."""
        return self.rank == 0

    def share(self, num: int, what: str) -> range:
        """Return the numbers below `num` that are this process's, or raise where none is fair."""
        check_share(num, self.size, what)
        return range(self.rank, num, self.size)

    def sums(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return the sums over processes; all of them must have the same names."""
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
        """Return the rows of all processes, process after process."""
        if self.size == 1:
            return list(rows)
        from accelerate.utils import gather_object

        return self._together(lambda: list(gather_object(list(rows))))

    @torch.no_grad()
    def add_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Leave the sum over processes in the gradients; where there is none yet, there will be.

        Those of a divided network are the sum already. Others are added some at a time: all of
        them once more would take as much memory as they do.
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
        """Return when all processes are here."""
        self._together(self._accelerator.wait_for_everyone)

    def _together(self, call: Callable[[], _T]) -> _T:
        """Return what a call that needs the other processes returns, or raise where one is gone."""
        try:
            return call()
        except RuntimeError as error:
            raise EngineError(
                f"Rank {self.rank} of {self.size} lost contact with another rank "
                f"({brief(error) or 'no answer'}). Restart all ranks with --resume."
            ) from error

    def start_trackers(self, update: int) -> None:
        """Begin to track a run at an update; what TensorBoard has of later ones is not shown."""
        s = self._settings
        named = {"tensorboard": {"purge_step": update + 1},
                 "wandb": {"name": s.out.name, "dir": str(s.out)}}  # fmt: skip
        self._accelerator.init_trackers(PROJECT, plain(record(s)), named)

    def track(self, row: Mapping[str, Any]) -> None:
        """Show a row of the log to the trackers."""
        self._accelerator.log(measures(row), step=row["step"])

    def leave(self) -> None:
        """Close the trackers, and the connections between processes."""
        self._accelerator.end_training()


def check_share(num: int, processes: int, what: str) -> None:
    """Refuse a number of something that cannot be shared fairly."""
    if num % processes:
        raise SettingsError(
            f"{what} {num} is no multiple of the {processes} processes; choose one that is."
        )


def _buckets(gradients: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Yield gradients together, up to so many numbers; a larger one alone."""
    bucket: list[Tensor] = []
    for gradient in gradients:
        if bucket and sum(g.numel() for g in bucket) + gradient.numel() > BUCKET:
            yield bucket
            bucket = []
        bucket.append(gradient)
    if bucket:
        yield bucket
