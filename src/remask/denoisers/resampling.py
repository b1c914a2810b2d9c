"""How warm further samples are drawn where a preset is greedy: data, with its sources.

Most published presets are at temperature 0, which draws the same answer every time. A pool then has
the greedy answer as its sample 0, and further ones at the temperature at which others draw several
answers of the same architecture. The paper names none.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Resampling:
    """The temperature of samples 1 and up, and who draws several answers so."""

    temperature: float
    source: str


USUAL = Resampling(
    temperature=0.7,
    source="nothing is published; between the 0.6 and 1.0 at which other families are drawn",
)
_SDAR = "JetAstra/SDAR, README.md (averages over 8 and 32 samples)"
BY_ARCHITECTURE = {
    "LLaDAModelLM": Resampling(
        temperature=0.9,
        source="dllm-reasoning/d1, diffu-grpo/diffu_grpo_config.py (rollouts of LLaDA-8B-Instruct)",
    ),
    "DreamModel": Resampling(
        temperature=0.8,
        source="Gen-Verse/dLLM-RL, configs/rl_dream.yaml (8 rollouts of a problem)",
    ),
    "A2DQwen3LMHeadModel": Resampling(
        temperature=1.0,
        source="ZHZisZZ/dllm, examples/rl/grpo/a2d/mdlm/train.py (rollouts, at TRL's default)",
    ),
    "SDARForCausalLM": Resampling(temperature=1.0, source=_SDAR),
    "SDARMoeForCausalLM": Resampling(temperature=1.0, source=_SDAR),
}


def resampling(architecture: str) -> Resampling:
    """Return how further samples of an architecture are drawn."""
    return BY_ARCHITECTURE.get(architecture, USUAL)
