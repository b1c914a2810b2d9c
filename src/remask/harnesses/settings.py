"""What a harness may set: the names are those of the flags of the command line."""

from dataclasses import dataclass
from typing import Annotated

from remask.settings import Seed, Setting, check


@dataclass(frozen=True, kw_only=True)
class HarnessSettings:
    """Which model answers, how its answers are written, and what scores them."""

    model: Annotated[str, Setting("The model: tiny (the embedded one), a folder, or a hub id.")]
    preset: Annotated[str, Setting("Sample as the model's authors did for this task.")] = ""
    device: Annotated[str, Setting("auto, cpu, cuda, cuda:N, several with commas, or all.")] = (
        "auto"
    )
    dtype: Annotated[str, Setting("Number format; auto is bfloat16 on CUDA.")] = "auto"
    weights: Annotated[
        str, Setting("Pack the weights into fewer bits: int8, nf4, or fp8 on Hopper.")
    ] = "full"
    compile: Annotated[bool, Setting("Compile the layers: pays for many answers on a GPU.")] = False
    scorer: Annotated[
        str,
        Setting("What scores the answers, such as verifier or roundtrips; empty: nothing does."),
    ] = ""
    kind: Annotated[str, Setting("How to read the final result of an answer.")] = "number"
    seed: Seed = 0
    # Of writing; what the harness itself says of a request goes before it.
    length: Annotated[int | None, Setting("Tokens of the canvas.", least=1)] = None
    steps: Annotated[int | None, Setting("Sampling steps.", least=1)] = None
    block: Annotated[int | None, Setting("Tokens written at a time.", least=1)] = None
    temperature: Annotated[float | None, Setting("Noise of sampling.", least=0)] = None
    # Of the probability of given texts:
    draws: Annotated[int, Setting("Masks per text; 128 is LLaDA's.", least=1, most=100_000)] = 128
    greedy: Annotated[
        bool, Setting("Say too whether greedy decoding writes the text: a pass for each token.")
    ] = True

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check(self)
