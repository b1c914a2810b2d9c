"""What the study of alignment trains: settings, arms, and which seeds each has.

An arm is a reward and an objective. `stable`, `outcome`, `placebo` and `oracle` have one objective
and schedule, and pay 1 or nothing: to right answers whose every token the start trusts, to all
right ones, to as many as are trusted, drawn by lot, and to those with right steps. `geometric` has
the paper's reward and objective to the letter: SPG without restraints, a constant rate,
1.5 + alpha S of the live weights. What all arms share is not the paper's: all weights of a small
model instead of adapters at 1e-6, 2 updates on a rollout, no masked prompt, and S without the
sentence encoder. Arms of one seed have the same start, problems and batches, and are asked the same
problems; those of another seed are asked others. docs/LOG.md says why these values.
"""

from dataclasses import dataclass
from typing import Any

Settings = dict[str, Any]
BLOCK = 16
TRUST = 0.4  # between the scores of answers with right steps and of those with wrong ones
SETTINGS: dict[str, Settings] = {
    "main": {"task": "wordmath", "level": "easy", "updates": 150, "steps_per_block": 3},
    "second": {"task": "choice", "level": "easy", "updates": 150, "steps_per_block": 3},
    "third": {"task": "wordmath", "level": "medium", "updates": 150, "steps_per_block": 3},
    "long": {"task": "wordmath", "level": "easy", "updates": 300, "steps_per_block": 3},
}
SHARED: Settings = {
    "tuning": "full", "weight_decay": 0.0, "prompts_per_update": 32, "num_generations": 8,
    "dtype": "bfloat16", "inner_updates": 2, "micro_batch": 256, "learning_rate": 1e-4,
    "max_grad_norm": 1.0, "eval_every": 25, "eval_problems": 256, "show_every": 0, "track": "none",
    "collapse_window": 0,  # all have the same updates: what collapses is to be seen
}  # fmt: skip
# Of all that learn from their own completions.
DRAWN: Settings = {"copies": 2, "prompt_mask_ratio": 0.0, "temperature": 0.3}
# Nothing is pushed down: what is better than its group becomes likelier, and that has an end.
STABLE: Settings = {
    **DRAWN, "method": "spg", "negative": "zero", "schedule": "linear", "warmup": 10,
}  # fmt: skip
# The least likely token while half of the canvas is masked: a mean can be pleased by the others.
SCORED: Settings = {
    **STABLE, "scored_by": "start", "scorer": "probe", "probe": "stratified50x4",
    "reading": "response_min",
}  # fmt: skip
ARMS: dict[str, Settings] = {
    "start": {},
    "sft": {"method": "sft", "schedule": "linear", "warmup": 10},
    "outcome": {**STABLE, "reward": "outcome", "right_reward": 1.0},
    "geometric": {
        **DRAWN,
        "temperature": 1.0,
        "learning_rate": 3e-5,
        "method": "spg",
        "reward": "consistency",
        "metrics": "core",
    },
    "stable": {**SCORED, "reward": "trusted", "trust": TRUST},
    "placebo": {**SCORED, "reward": "studies.align.rewards:placebo"},
    "oracle": {**STABLE, "reward": "studies.align.rewards:oracle"},
}
# Seeds of each arm; of the start a seed is other problems.
PLAN: dict[str, dict[str, int]] = {
    "main": {"start": 12, "stable": 12, "outcome": 12, "geometric": 3, "placebo": 3, "oracle": 3,
             "sft": 3},
    "second": {"start": 4, "stable": 4, "outcome": 4},
    "third": {"start": 4, "stable": 4, "outcome": 4},
    "long": {"stable": 3},
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Job:
    """One training, or the start."""

    setting: str
    arm: str
    seed: int
    variation: str = ""  # settings that differ from the study's, as in learning_rate=1e-5,beta=2
    split: str = "test"  # whose problems are asked

    @property
    def name(self) -> str:
        """A name for folders and tables."""
        plain = "".join(c if c.isalnum() or c in ".-" else "_" for c in self.variation)
        split = "" if self.split == "test" else self.split
        return "-".join(filter(None, (self.setting, self.arm, str(self.seed), split, plain)))

    @property
    def changes(self) -> Settings:
        """The settings of the variation; YAML reads their values."""
        import yaml

        pairs = [word.partition("=") for word in self.variation.split(",") if word]
        return {name: yaml.safe_load(value) for name, _, value in pairs}


def planned(setting: str) -> list[Job]:
    """Return the trainings of a setting, seed by seed, so that pairs end together."""
    arms = PLAN[setting]
    return [
        Job(setting=setting, arm=arm, seed=seed)
        for seed in range(max(arms.values()))
        for arm, num in arms.items()
        if seed < num
    ]
