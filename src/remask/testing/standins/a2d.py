"""dllm-hub: Qwen and Llama turned into diffusion models, A2D."""

from collections.abc import Callable
from functools import partial

from remask.testing.standins import qwen, weights
from remask.testing.standins.standin import Json, Standin, token
from remask.testing.standins.vocabulary import Numbered, Vocabulary

QWEN3 = Vocabulary(
    kind="Qwen3 with a mask",
    special={**qwen.SPECIAL, "<|mask|>": 151_669},
    plain=qwen.PLAIN3,
    size=151_936,
)
QWEN2 = Vocabulary(
    kind="Qwen2.5 with a mask",
    special={**qwen.SPECIAL, "<|mask|>": 151_665},
    plain=qwen.PLAIN2,
    size=151_936,
)


def _config(ids: Numbered, width: int, *, keys: Callable[[Numbered, int], Json], name: str) -> Json:
    return {
        **keys(ids, width), "architectures": [f"A2D{name}LMHeadModel"],
        "bos_token_id": ids["<|endoftext|>"], "dtype": "bfloat16",
        "eos_token_id": ids["<|im_end|>"], "layer_types": ["full_attention"] * 2,
        "model_type": f"a2d-{name.lower()}", "tie_word_embeddings": True,
        "transformers_version": "4.57.0",
    }  # fmt: skip


def _standin(
    name: str,
    vocabulary: Vocabulary,
    template: str,
    config: Callable[[Numbered, int], Json],
    tensor_shapes: Callable[[weights.Config], weights.Shapes],
    generation: Callable[[Numbered], Json],
) -> Standin:
    return Standin(
        id=f"dllm-hub/{name}",
        vocabulary=vocabulary,
        config=config,
        tensor_shapes=tensor_shapes,
        mask="<|mask|>",
        end="<|endoftext|>",
        tokenizer_config={
            **qwen.tokenizer_config("<|im_end|>", ()), "extra_special_tokens": {},
            "mask_token": "<|mask|>",
        },
        special_tokens_map={
            "additional_special_tokens": list(qwen.SPECIAL)[1:],
            "eos_token": token("<|im_end|>"), "mask_token": token("<|mask|>"),
            "pad_token": token("<|endoftext|>"),
        },
        template=template,
        asked_with={"enable_thinking": False},
        template_file=True,
        generation=generation,
        slow=True,
        added={},
        source="the authors' convert.py and utils/models.py (ZHZisZZ/dllm @ ca17675): config.json "
        "is the ancestor's under another name, the tokenizer the ancestor's with <|mask|> added; "
        "the size on the hub (0.8 and 0.6 billion) says that the file repeats the tied head",
        unknown="the files themselves; the generation_config.json of the ancestor is in the "
        "folder, as a third party reports",
    )  # fmt: skip


def _qwen3(name: str) -> Standin:
    return _standin(
        name, QWEN3, qwen.TEMPLATE3, partial(_config, keys=qwen.config3, name="Qwen3"),
        partial(weights.decoder, qk_norm=True), qwen.generation3,
    )  # fmt: skip


def _qwen2(name: str) -> Standin:
    return _standin(
        name, QWEN2, qwen.template2(qwen.INSTRUCT_SYSTEM),
        partial(_config, keys=qwen.config2, name="Qwen2"),
        partial(weights.decoder, qkv_bias=True), qwen.generation2,
    )  # fmt: skip


STANDINS = (
    _qwen3("Qwen3-0.6B-diffusion-mdlm-v0.1"),
    _qwen3("Qwen3-0.6B-diffusion-bd3lm-v0.1"),
    _qwen2("Qwen2.5-Coder-0.5B-Instruct-diffusion-mdlm-v0.1"),
    _qwen2("Qwen2.5-Coder-0.5B-Instruct-diffusion-bd3lm-v0.1"),
)
