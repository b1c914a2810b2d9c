"""Our rewards in TRL's own GRPOTrainer, on a random model of one layer."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch

import remask
from remask.align import ConsistencyReward, OutcomeReward
from remask.api import consistency
from remask.consistency.settings import ConsistencySettings
from remask.tasks.base import Problem
from remask.testing import write_checkpoint

pytestmark = pytest.mark.filterwarnings("ignore")  # of other people's packages


@pytest.fixture
def writer() -> dict[str, Any]:
    """A random causal model whose tokens are bytes, and its tokenizer."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    names = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "<eos>"]
    backend = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<eos>", pad_token="<eos>"
    )
    config = LlamaConfig(
        vocab_size=len(names), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=1024,
    )  # fmt: skip
    with torch.random.fork_rng([]):
        torch.random.manual_seed(0)
        return {"model": LlamaForCausalLM(config), "processing_class": tokenizer}


@pytest.fixture
def train(writer: dict[str, Any], tmp_path: Path) -> Callable[..., list[dict[str, float]]]:
    """Train two steps on problems of pycode with TRL; return its log."""

    def run(problems: list[Problem], rewards: list[Any]) -> list[dict[str, float]]:
        from datasets import Dataset
        from trl import GRPOConfig, GRPOTrainer

        rows = [{"prompt": p.prompt, "problem": p.as_row()} for p in problems]
        arguments = GRPOConfig(
            output_dir=str(tmp_path / "out"), max_steps=2, per_device_train_batch_size=4,
            num_generations=4, max_completion_length=8, logging_steps=1, report_to=[],
            use_cpu=True, save_strategy="no", scale_rewards="none", disable_tqdm=True,
            reward_weights=[1.0, 0.5],
        )  # fmt: skip
        trainer = GRPOTrainer(
            **writer, args=arguments, train_dataset=Dataset.from_list(rows), reward_funcs=rewards
        )
        trainer.train()
        return [row for row in trainer.state.log_history if "reward" in row]

    return run


def test_trl_pays_what_our_rewards_say(
    train: Callable[..., list[dict[str, float]]], tmp_path: Path
) -> None:
    """alpha is 1/2 + 1/2 of 0 and of 1 of two steps; right is what has an even length."""
    folder = write_checkpoint(
        tmp_path / "model", layers=1, width=16, heads=2, inner=16, length=16, max_length=2048,
        dtype=torch.float32,
    )  # fmt: skip
    denoiser = remask.load(folder, device="cpu")
    scorer = consistency(
        denoiser, metrics="core", settings=ConsistencySettings(trips=2, rebuild_steps=2)
    )
    task = remask.task("pycode")
    problems = [task.problem(i, split="train") for i in range(4)]
    graded: list[tuple[Problem, str]] = []

    def grade(problem: Problem, text: str) -> bool:
        graded.append((problem, text))
        return len(text) % 2 == 0

    score = ConsistencyReward(
        scorer=scorer, grade=grade, sample_from_text=partial(remask.sample_from_text, denoiser)
    )
    log = train(problems, [score, OutcomeReward(grade=grade)])
    rows = {p.id: p.as_row() for p in problems}
    assert all(problem.as_row() == rows[problem.id] for problem, _ in graded)
    assert len(graded) == 16  # two steps, four completions, two rewards
    assert [row["bmc/alpha"] for row in log] == [0.5, 0.75]
    for step, row in enumerate(log):
        right = [len(text) % 2 == 0 for _, text in graded[8 * step : 8 * step + 4]]
        outcome, paid = row["rewards/outcome/mean"], row["rewards/consistency/mean"]
        assert outcome == pytest.approx(2 * fmean(right))
        extra = row["bmc/alpha"] * row.get("bmc/score", 0.0)
        assert paid == pytest.approx(fmean(right) * (1.5 + extra), abs=1e-5)
        assert row["reward"] == pytest.approx(paid + 0.5 * outcome, abs=1e-5)
    assert any(0 < row["rewards/outcome/mean"] < 2 for row in log)
