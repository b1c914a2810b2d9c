"""What the descendants of Qwen2.5 and Qwen3 inherit: tokens, the chat template, sampling.

The list of tokens is that of `added_tokens.json` in JetAstra/SDAR (Qwen3) and in a copy of
Fast-dLLM v2 (Qwen2.5); the sampling is that of both generation_config.json files.
"""

from remask.testing.standins.standin import Json
from remask.testing.standins.vocabulary import Numbered

_MARKS = ("object_ref_start", "object_ref_end", "box_start", "box_end", "quad_start", "quad_end",
          "vision_start", "vision_end", "vision_pad", "image_pad", "video_pad")  # fmt: skip
SPECIAL = {"<|endoftext|>": 151_643, "<|im_start|>": 151_644, "<|im_end|>": 151_645} | {
    f"<|{mark}|>": 151_646 + i for i, mark in enumerate(_MARKS)
}
_CODE = ("fim_prefix", "fim_middle", "fim_suffix", "fim_pad", "repo_name", "file_sep")
PLAIN2 = {"<tool_call>": 151_657, "</tool_call>": 151_658} | {
    f"<|{name}|>": 151_659 + i for i, name in enumerate(_CODE)
}
PLAIN3 = PLAIN2 | {
    "<tool_response>": 151_665, "</tool_response>": 151_666, "<think>": 151_667, "</think>": 151_668
}  # fmt: skip

_TURNS = (
    "{% for turn in messages %}<|im_start|>{{ turn.role }}\n{{ turn.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
)


def template2(system: str) -> str:
    """Return Qwen2.5's: it opens with a system turn where the conversation has none."""
    opening = "{% if messages[0].role != 'system' %}<|im_start|>system\n"
    return f"{opening}{system}<|im_end|>\n{{% endif %}}{_TURNS}{{% endif %}}"


BASE_SYSTEM = "You are a helpful assistant."
INSTRUCT_SYSTEM = f"You are Qwen, created by Alibaba Cloud. {BASE_SYSTEM}"
# Qwen3 opens with none, and answers without thinking aloud after an empty thought.
TEMPLATE3 = (
    _TURNS + "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n"
    "{% endif %}{% endif %}"
)


def tokenizer_config(eos: str, extra: tuple[str, ...]) -> Json:
    """Return what is the same in all of their tokenizer_config.json; `extra` are further tokens."""
    return {
        "add_bos_token": False, "add_prefix_space": False,
        "additional_special_tokens": [*list(SPECIAL)[1:], *extra], "bos_token": None,
        "clean_up_tokenization_spaces": False, "eos_token": eos, "errors": "replace",
        "model_max_length": 131072, "pad_token": "<|endoftext|>", "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer", "unk_token": None,
    }  # fmt: skip


def generation3(ids: Numbered) -> Json:
    """Return Qwen3's generation_config.json: how an autoregressive ancestor was sampled."""
    end = ids["<|endoftext|>"]
    return {
        "bos_token_id": end, "do_sample": True, "eos_token_id": [ids["<|im_end|>"], end],
        "pad_token_id": end, "temperature": 0.6, "top_k": 20, "top_p": 0.95,
        "transformers_version": "4.51.0",
    }  # fmt: skip


def generation2(ids: Numbered) -> Json:
    """Return Qwen2.5's generation_config.json."""
    return {
        **generation3(ids), "repetition_penalty": 1.05, "temperature": 0.7, "top_p": 0.8,
        "transformers_version": "4.53.1",
    }  # fmt: skip


def config2(ids: Numbered, width: int) -> Json:
    """Return the keys of Qwen2's config.json, without names and ids."""
    return {
        "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": width,
        "initializer_range": 0.02, "intermediate_size": 2 * width,
        "max_position_embeddings": 131072, "max_window_layers": 2, "num_attention_heads": 2,
        "num_hidden_layers": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-06,
        "rope_scaling": None, "rope_theta": 1000000.0, "sliding_window": None,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True,
        "use_sliding_window": False, "vocab_size": ids.size,
    }  # fmt: skip


def config3(ids: Numbered, width: int) -> Json:
    """Return the keys of Qwen3's config.json, without names and ids."""
    return {
        **config2(ids, width), "attention_bias": False, "head_dim": width // 2,
        "max_position_embeddings": 40960, "rope_theta": 1000000,
    }  # fmt: skip
