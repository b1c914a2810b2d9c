"""Training text: generated problems as rows of ids, and the tokenizer learned from them.

Batch number k is a function of (seed, k) alone, so a resumed run sees what an uninterrupted one
would have seen, whatever the number of worker processes. Every row has the same length S: prompt,
solution, and EOS up to the end; the canvas is whatever follows the prompt, so that its length
varies and no padding is needed. S itself cycles, so that short rows do not pay for long ones:
problems that do not fit the short rows make up two thirds of the long ones, a little more than
their share.
"""

import multiprocessing
import random
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import decoders, models, pre_tokenizers, trainers

from remask.denoisers.tokenizer import LLADA_TEMPLATE
from remask.tasks import TASKS, task
from remask.tasks.base import PIECES, Problem

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|mdm_mask|>",
    "<|startoftext|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
)
EOS_ID, MASK_ID, END_OF_TURN_ID = (
    0,
    1,
    5,
)  # places in SPECIAL_TOKENS: the trainer numbers them first
SHORT, LONG, LONGEST = 128, 176, 208  # 208 holds every trained problem
ROW_LENGTHS = (SHORT, LONGEST, SHORT, LONG, SHORT, LONGEST)  # one batch each, in turn
TRAINED_LEVELS = ("easy", "medium")
LEVEL_WEIGHTS = (1, 2)  # the longer problems are learned last


class Rows(NamedTuple):
    """One batch of training rows."""

    ids: NDArray[np.int16]  # (B, S)
    num_prompt: NDArray[np.int16]  # (B,)


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The generated mix: which tasks, how often, from which seed."""

    mix: Mapping[str, float]  # task -> share
    batch: int
    seed: int
    tokenizer: str  # a serialised tokenizers.Tokenizer: cheap to send to a worker process

    def rows(self, step: int) -> Rows:
        """Return batch number `step`."""
        backend = _backend(self.tokenizer)
        length = ROW_LENGTHS[step % len(ROW_LENGTHS)]
        rng = random.Random(f"{self.seed}/{step}")
        ids = np.full((self.batch, length), EOS_ID, np.int16)
        num_prompt = np.zeros(self.batch, np.int16)
        filled = drawn = 0
        while filled < self.batch:
            patient = drawn < 16 * self.batch  # a mix of short problems only has no long rows
            drawn += self.batch - filled
            problems = [self._draw(rng) for _ in range(self.batch - filled)]
            prompts = backend.encode_batch_fast([_render(p.prompt) for p in problems])
            solutions = backend.encode_batch_fast([p.solution for p in problems])
            for prompt, solution in zip(prompts, solutions, strict=True):
                row = prompt.ids + solution.ids
                # Two places in three of a long batch want a long row, while there are any.
                least = SHORT if patient and length > SHORT and filled % 3 > 0 else 0
                if least <= len(row) < length:  # at least one EOS must fit
                    ids[filled, : len(row)] = row
                    num_prompt[filled] = len(prompt.ids)
                    filled += 1
        return Rows(ids, num_prompt)

    def _draw(self, rng: random.Random) -> Problem:
        name = rng.choices(list(self.mix), list(self.mix.values()))[0]
        level = rng.choices(TRAINED_LEVELS, LEVEL_WEIGHTS)[0]
        return task(name).problem(rng.getrandbits(62), split="train", level=level, seed=self.seed)

    def stream(self, start: int, stop: int, workers: int) -> Iterator[Rows]:
        """Yield batches `start` up to `stop`, in order, made ahead by `workers` processes."""
        if workers == 0:
            yield from map(self.rows, range(start, stop))
            return
        ahead = threading.Semaphore(4 * workers)  # bounds what waits in memory
        left = threading.Event()

        def steps() -> Iterator[int]:
            for step in range(start, stop):
                while not ahead.acquire(timeout=0.1):
                    if left.is_set():  # nobody will release: the pool could not be closed
                        return
                yield step

        with multiprocessing.get_context("spawn").Pool(workers) as pool:
            try:
                for rows in pool.imap(self.rows, steps()):
                    ahead.release()
                    yield rows
            finally:
                left.set()


def _render(prompt: str) -> str:
    return LLADA_TEMPLATE.replace("{prompt}", prompt)


_BACKENDS: dict[str, tokenizers.Tokenizer] = {}  # one per process: parsing it is slow


def _backend(serialised: str) -> tokenizers.Tokenizer:
    if serialised not in _BACKENDS:
        _BACKENDS[serialised] = tokenizers.Tokenizer.from_str(serialised)
    return _BACKENDS[serialised]


def train_tokenizer(*, num_problems: int, size: int, seed: int) -> tokenizers.Tokenizer:
    """Return a byte-level BPE tokenizer learned from `num_problems` of each task and level."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(_texts(num_problems, seed), trainer)
    return backend


def _texts(num_problems: int, seed: int) -> Iterator[str]:
    for family in TASKS.values():
        for level in TRAINED_LEVELS:
            for i in range(num_problems):
                problem = family.problem(i, split="train", level=level, seed=seed)
                yield _render(problem.prompt)
                yield problem.solution
