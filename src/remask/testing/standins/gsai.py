"""GSAI-ML: LLaDA-8B, LLaDA-1.5 and iLLaDA-8B."""

from typing import Any

from remask.testing.standins import weights
from remask.testing.standins.standin import Json, Standin, token
from remask.testing.standins.vocabulary import Numbered, Vocabulary

_RESERVED = {f"<|reserved_token_{i}|>": 126_084 + i for i in (0, 251, 253, 254, 255)}
LLADA = Vocabulary(
    kind="LLaDA",
    special={
        "<|startoftext|>": 126_080, "<|endoftext|>": 126_081, "[CLS]": 126_082, "[gMASK]": 126_083,
        **_RESERVED, "<|mdm_mask|>": 126_336, "<role>": 126_340, "</role>": 126_341,
        "<|arithmetic_start|>": 126_342, "<|arithmetic_end|>": 126_343,
        "<|number_start|>": 126_344, "<|number_end|>": 126_345,
        "<|start_header_id|>": 126_346, "<|end_header_id|>": 126_347, "<|eot_id|>": 126_348,
    },
    size=126_464,
)  # fmt: skip
# The three header tokens have no names in the tokenizer of Base, as others report it.
_HEADERS = ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
LLADA_TEMPLATE = (
    "{{ bos_token }}{% for turn in messages %}<|start_header_id|>{{ turn.role }}<|end_header_id|>"
    "\n\n{{ turn.content.strip() }}<|eot_id|>{% endfor %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"
)
_EXTRA = ["<role>", "</role>", "<|arithmetic_start|>", "<|arithmetic_end|>", "<|number_start|>"]
_LLADA_TOKENIZER: dict[str, Any] = {
    "add_bos_token": False, "add_eos_token": False,
    "additional_special_tokens": [*_EXTRA, "<|number_end|>"],
    "bos_token": "<|startoftext|>", "clean_up_tokenization_spaces": False, "cls_token": "[CLS]",
    "eos_token": "<|endoftext|>", "fast_tokenizer": True, "gmask_token": "[gMASK]",
    "merges_file": None, "model_input_names": ["input_ids", "attention_mask"],
    "model_max_length": 1000000000000000019884624838656, "pad_token": "<|endoftext|>",
    "tokenizer_class": "PreTrainedTokenizerFast", "trust_remote_code": True, "vocab_file": None,
}  # fmt: skip


def _llada_config(ids: Numbered, width: int) -> Json:
    return {
        "activation_type": "silu", "alibi": False, "alibi_bias_max": 8.0,
        "architectures": ["LLaDAModelLM"], "attention_dropout": 0.0,
        "attention_layer_norm": False, "attention_layer_norm_with_affine": True,
        "auto_map": {
            "AutoConfig": "configuration_llada.LLaDAConfig",
            "AutoModelForCausalLM": "modeling_llada.LLaDAModelLM",
            "AutoModel": "modeling_llada.LLaDAModelLM",
        },
        "bias_for_layer_norm": False, "block_group_size": 1, "block_type": "llama",
        "d_model": width, "embedding_dropout": 0.0, "embedding_size": ids.size,
        "eos_token_id": ids["<|endoftext|>"], "flash_attention": False, "include_bias": False,
        "include_qkv_bias": False, "init_cutoff_factor": None, "init_device": "meta",
        "init_fn": "mitchell", "init_std": 0.02, "input_emb_norm": False,
        "layer_norm_type": "rms", "layer_norm_with_affine": True,
        "mask_token_id": ids["<|mdm_mask|>"], "max_sequence_length": 4096,
        "mlp_hidden_size": 2 * width, "mlp_ratio": 4, "model_type": "llada",
        "multi_query_attention": None, "n_heads": 2, "n_kv_heads": 2, "n_layers": 2,
        "pad_token_id": ids["<|endoftext|>"], "precision": "amp_bf16", "residual_dropout": 0.0,
        "rms_norm_eps": 1e-05, "rope": True, "rope_full_precision": True, "rope_theta": 500000.0,
        "scale_logits": False, "transformers_version": "4.46.3", "use_cache": False,
        "vocab_size": ids.size, "weight_tying": False,
    }  # fmt: skip


def _llada_generation(ids: Numbered) -> Json:
    end = ids["<|endoftext|>"]
    return {
        "_from_model_config": True, "eos_token_id": end, "pad_token_id": end,
        "transformers_version": "4.46.3",
    }  # fmt: skip


def _llada(name: str, vocabulary: Vocabulary, unknown: str) -> Standin:
    return Standin(
        id=f"GSAI-ML/{name}",
        vocabulary=vocabulary,
        config=_llada_config,
        tensor_shapes=weights.llada,
        mask="<|mdm_mask|>",
        end="<|endoftext|>",
        tokenizer_config=_LLADA_TOKENIZER,
        special_tokens_map={
            "additional_special_tokens": [*_EXTRA, "<|number_end|>"],
            "bos_token": token("<|startoftext|>"), "cls_token": token("[CLS]"),
            "eos_token": token("<|endoftext|>"), "gmask_token": token("[gMASK]"),
            "pad_token": token("<|endoftext|>"),
        },
        template=LLADA_TEMPLATE,
        generation=_llada_generation,
        shards=6,
        source="config.json, tokenizer_config.json and the index of LLaDA-8B-Instruct, copied in "
        "yinj66/support_basis @ 66e6761; the list of files on the hub's page of the repository",
        unknown=unknown,
    )  # fmt: skip


_NAMED = {t: i for t, i in LLADA.special.items() if t not in _HEADERS}
_BASE = Vocabulary(
    kind="LLaDA",
    # The ids exist all the same, under the names of reserved tokens.
    special={**_NAMED, **{f"<|reserved_token_{262 + i}|>": 126_346 + i for i in range(3)}},
    size=LLADA.size,
)
_SIZE_ALONE = (
    "generation_config.json (128 bytes: it has no room for sampling) and special_tokens_map.json "
    "were seen by size alone"
)

# Seed-Coder's spelling: nobody has published the files themselves.
ILLADA = Vocabulary(
    kind="iLLaDA",
    special={
        "<[begin▁of▁sentence]>": 0, "<[PAD▁TOKEN]>": 1, "<[end▁of▁sentence]>": 2,
        "<[UNK]>": 3, "<[SEP]>": 4, "<[MASK]>": 5,
    },
    size=155_136,
)  # fmt: skip
ILLADA_TEMPLATE = (
    "{% for turn in messages %}<[begin▁of▁sentence]>{{ turn.role }}\n{{ turn.content.strip() }}"
    "<[end▁of▁sentence]>{% endfor %}"
    "{% if add_generation_prompt %}<[begin▁of▁sentence]>assistant\n{% endif %}"
)


def _illada_config(ids: Numbered, width: int) -> Json:
    return {
        "architectures": ["ILLaDAForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "auto_map": {
            "AutoConfig": "configuration_illada.ILLaDAConfig",
            "AutoModel": "modeling_illada.ILLaDAForCausalLM",
            "AutoModelForCausalLM": "modeling_illada.ILLaDAForCausalLM",
        },
        "bos_token_id": ids["<[begin▁of▁sentence]>"], "dtype": "bfloat16",
        "eos_token_id": ids["<[end▁of▁sentence]>"], "head_dim": width // 2, "hidden_act": "silu",
        "hidden_size": width, "initializer_range": 0.02, "intermediate_size": 2 * width,
        "max_position_embeddings": 8192, "mlp_bias": False, "model_type": "illada",
        "num_attention_heads": 2, "num_hidden_layers": 2, "num_key_value_heads": 1,
        "pad_token_id": ids["<[PAD▁TOKEN]>"], "rms_norm_eps": 1e-05, "rope_scaling": None,
        "rope_theta": 10000.0, "tie_word_embeddings": True, "transformers_version": "4.57.1",
        "use_cache": False, "vocab_size": ids.size,
    }  # fmt: skip


def _illada_shapes(config: weights.Config) -> weights.Shapes:
    tensor_shapes = weights.decoder(config)
    del tensor_shapes["lm_head.weight"]  # 291 tensors: the tied head is not among them
    return tensor_shapes


def _illada(name: str) -> Standin:
    return Standin(
        id=f"GSAI-ML/{name}",
        vocabulary=ILLADA,
        config=_illada_config,
        tensor_shapes=_illada_shapes,
        mask="<[MASK]>",
        end="<[end▁of▁sentence]>",
        tokenizer_config={
            "bos_token": "<[begin▁of▁sentence]>", "clean_up_tokenization_spaces": False,
            "eos_token": "<[end▁of▁sentence]>", "pad_token": "<[PAD▁TOKEN]>",
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
        template=ILLADA_TEMPLATE,
        shards=4,
        source="two third parties that loaded the checkpoint: no mask_token_id, no mask token, "
        "special ids 0, 1, 2 and 5, a tied head, transformers 4.57.1",
        unknown="every file: the keys are those of transformers' Llama, the tokens and the "
        "template Seed-Coder's, whose vocabulary has the same size",
    )  # fmt: skip


STANDINS = (
    _llada("LLaDA-8B-Base", _BASE, f"the tokenizer of Base; {_SIZE_ALONE}"),
    _llada("LLaDA-8B-Instruct", LLADA, _SIZE_ALONE),
    _llada("LLaDA-1.5", LLADA, f"that 1.5 has the files of 8B-Instruct; {_SIZE_ALONE}"),
    _illada("iLLaDA-8B-Base"),
    _illada("iLLaDA-8B-Instruct"),
)
