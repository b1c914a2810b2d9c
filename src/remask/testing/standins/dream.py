"""Dream-org and Apple: Dream-v0, Dream-Coder and DiffuCoder, which are Qwen2.5 inside."""

from functools import partial

from remask.testing.standins import qwen, weights
from remask.testing.standins.standin import Json, Standin, token
from remask.testing.standins.vocabulary import Numbered, Vocabulary

_TOKENS = {**qwen.SPECIAL, "<|beginoftext|>": 151_665, "<|mask|>": 151_666}
DREAM = Vocabulary(kind="Dream", special=_TOKENS, plain=qwen.PLAIN2, size=152_064)
DIFFUCODER = Vocabulary(
    kind="Dream", special={**_TOKENS, "<|dlm_pad|>": 151_667}, plain=qwen.PLAIN2, size=152_064
)


def _config(ids: Numbered, width: int, *, name: str, bos: str) -> Json:
    end = ids["<|endoftext|>"]
    return {
        "_name_or_path": name, "architectures": ["DreamModel"],
        "auto_map": {
            "AutoConfig": "configuration_dream.DreamConfig",
            "AutoModel": "modeling_dream.DreamModel",
        },
        "bos_token_id": ids[bos], "eos_token_id": end, "mask_token_id": ids["<|mask|>"],
        "model_type": "Dream", "pad_token_id": end, "transformers_version": "4.46.2",
        "use_mrope": False, **qwen.config2(ids, width),
    }  # fmt: skip


def _generation(ids: Numbered) -> Json:
    end = ids["<|endoftext|>"]
    return {
        "_from_model_config": True, "alg": "origin", "alg_temp": None, "bos_token_id": end,
        "eos_token_id": end, "eps": 0.001, "mask_token_id": None, "output_history": False,
        "pad_token_id": end, "steps": 512, "temperature": 0.0, "top_k": None, "top_p": None,
        "transformers_version": "4.46.2",
    }  # fmt: skip


def _standin(
    name: str, unknown: str, *, bos: str = "<|endoftext|>", pad: str = "<|endoftext|>"
) -> Standin:
    special = {
        "bos_token": "<|beginoftext|>", "eos_token": "<|endoftext|>", "mask_token": "<|mask|>",
        "pad_token": pad,
    }  # fmt: skip
    extra = ("<|beginoftext|>", "<|mask|>")
    return Standin(
        id=name,
        vocabulary=DIFFUCODER if pad == "<|dlm_pad|>" else DREAM,
        config=partial(_config, name=name, bos=bos),
        tensor_shapes=partial(weights.decoder, qkv_bias=True),
        mask="<|mask|>",
        end="<|endoftext|>",
        tokenizer_config={
            **qwen.tokenizer_config("<|endoftext|>", extra), **special,
            "auto_map": {"AutoTokenizer": ["tokenization_dream.DreamTokenizer", None]},
            "tokenizer_class": "DreamTokenizer",
        },
        special_tokens_map={
            "additional_special_tokens": [*extra],
            **{name: token(content) for name, content in special.items()},
        },
        template=qwen.template2(qwen.BASE_SYSTEM),
        generation=_generation,
        fast=False,
        slow=True,
        added={},
        shards=4,
        source="config.json of Dream-v0-Instruct-7B, copied in Linn3a/DARE @ f3ca6dc; its "
        "generation_config.json, in monash-yann/dllm-research @ db71702; vocab.json and "
        "merges.txt are all that the authors' tokenization_dream.py reads",
        unknown=unknown,
    )  # fmt: skip


_TOKENIZER = "tokenizer_config.json, special_tokens_map.json and added_tokens.json: second-hand"
STANDINS = (
    _standin("Dream-org/Dream-v0-Base-7B", f"that Base has the files of Instruct; {_TOKENIZER}"),
    _standin("Dream-org/Dream-v0-Instruct-7B", _TOKENIZER),
    _standin(
        "Dream-org/Dream-Coder-v0-Instruct-7B",
        f"that it has the files of Dream-v0, but for bos 151665, which others report; {_TOKENIZER}",
        bos="<|beginoftext|>",
    ),
    _standin(
        "apple/DiffuCoder-7B-Instruct",
        f"that it has the files of Dream-v0, but for its pad token, which others report; "
        f"{_TOKENIZER}",
        pad="<|dlm_pad|>",
    ),
)
