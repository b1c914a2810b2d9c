"""inclusionAI: LLaDA-MoE and LLaDA2."""

from functools import partial

from remask.testing.standins import weights
from remask.testing.standins.standin import Json, Standin
from remask.testing.standins.vocabulary import Numbered, Vocabulary

# Ling's tokenizer with a mask token. The ids of <role> and </role> are not known.
LING = Vocabulary(
    kind="inclusionAI",
    special={
        "<|startoftext|>": 156_891, "<|endoftext|>": 156_892, "[CLS]": 156_893, "[gMASK]": 156_894,
        "<|mask|>": 156_895, "<role>": 156_896, "</role>": 156_897, "<|role_end|>": 156_900,
    },
    size=157_184,
)  # fmt: skip
# A system turn says that the model is not to think aloud, with or without words of the user's.
TEMPLATE = (
    "{% set own = messages[0].content + '\n' if messages[0].role == 'system' else '' %}"
    "<role>SYSTEM</role>{{ own }}detailed thinking off<|role_end|>"
    "{% for turn in messages if turn.role != 'system' %}"
    "<role>{{ 'HUMAN' if turn.role == 'user' else turn.role | upper }}</role>{{ turn.content }}"
    "<|role_end|>{% endfor %}{% if add_generation_prompt %}<role>ASSISTANT</role>{% endif %}"
)
_NAMES = {
    "bos_token": "<|startoftext|>", "cls_token": "[CLS]", "eos_token": "<|endoftext|>",
    "gmask_token": "[gMASK]", "pad_token": "<|endoftext|>",
}  # fmt: skip
_TOKENIZER = {
    "add_bos_token": False, "add_eos_token": False, **_NAMES,
    "clean_up_tokenization_spaces": False, "fast_tokenizer": True, "merges_file": None,
    "model_max_length": 1000000000000000019884624838656,
    "tokenizer_class": "PreTrainedTokenizerFast", "trust_remote_code": True,
}  # fmt: skip


def _moe_config(ids: Numbered, width: int) -> Json:
    end = ids["<|endoftext|>"]
    return {
        "architectures": ["LLaDAMoEModelLM"], "attention_bias": False, "attention_dropout": 0.0,
        "auto_map": {
            "AutoConfig": "configuration_lladamoe.LLaDAConfig",
            "AutoModel": "modeling_lladamoe.LLaDAMoEModelLM",
            "AutoModelForCausalLM": "modeling_lladamoe.LLaDAMoEModelLM",
        },
        "clip_qkv": None, "dense_intermediate_size": 4 * width, "eos_token_id": end,
        "expert_intermediate_size": width, "hidden_act": "silu", "hidden_size": width,
        "initializer_range": 0.02, "max_position_embeddings": 8192, "model_type": "llada",
        "moe_layer_freq": [1, 1], "moe_router_enable_expert_bias": False,
        "moe_router_score_function": "softmax", "norm_topk_prob": None, "num_attention_heads": 2,
        "num_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2,
        "num_key_value_heads": 2, "output_router_logits": False, "pad_token_id": end,
        "partial_rotary_factor": 1, "qk_layernorm": True, "rms_norm_eps": 1e-05,
        "rope_scaling": None, "rope_theta": 50000, "routed_scaling_factor": 1,
        "router_aux_loss_coef": 0.01, "router_num_group": None, "router_topk_group": None,
        "shared_expert_intermediate_size": None, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "transformers_version": "4.53.2", "use_cache": False,
        "vocab_size": ids.size,
    }  # fmt: skip


def _moe_generation(ids: Numbered) -> Json:
    end = ids["<|endoftext|>"]
    return {
        "_from_model_config": True, "eos_token_id": end, "pad_token_id": end,
        "transformers_version": "4.53.2", "use_cache": False,
    }  # fmt: skip


def _moe(name: str) -> Standin:
    return Standin(
        id=f"inclusionAI/{name}",
        vocabulary=LING,
        config=_moe_config,
        tensor_shapes=partial(weights.sparse_decoder, inner="expert_intermediate_size"),
        mask="<|mask|>",
        end="<|endoftext|>",
        tokenizer_config=_TOKENIZER,
        special_tokens_map={**_NAMES, "mask_token": "<|mask|>"},
        template=TEMPLATE,
        generation=_moe_generation,
        shards=3,
        source="the authors' configuration_lladamoe.py for the keys; the list of files and their "
        "sizes on the hub's page of LLaDA-MoE-7B-A1B-Base; a third party that loaded Instruct "
        "(mask 156895, eos and pad 156892)",
        unknown="config.json itself; what is in generation_config.json (143 bytes) and "
        "special_tokens_map.json (181 bytes), whose sizes these keys and the true ids give; the "
        "ids of <role> and </role>",
    )


def _llada2_config(ids: Numbered, width: int) -> Json:
    return {
        "architectures": ["LLaDA2MoeModelLM"], "attention_dropout": 0.0,
        "auto_map": {
            "AutoConfig": "configuration_llada2_moe.LLaDA2MoeConfig",
            "AutoModel": "modeling_llada2_moe.LLaDA2MoeModel",
            "AutoModelForCausalLM": "modeling_llada2_moe.LLaDA2MoeModelLM",
        },
        "num_hidden_layers": 2, "hidden_size": width, "intermediate_size": 2 * width,
        "first_k_dense_replace": 1, "hidden_act": "silu", "max_position_embeddings": 32768,
        "model_type": "llada2_moe", "moe_intermediate_size": width // 2, "norm_topk_prob": True,
        "num_experts_per_tok": 2, "norm_head": False, "num_attention_heads": 2,
        "num_experts": 8, "num_key_value_heads": 1, "rope_theta": 600000, "rope_scaling": None,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "transformers_version": "4.52.3", "use_bias": False, "use_rmsnorm": True,
        "rms_norm_eps": 1e-06, "head_dim": width // 2, "num_shared_experts": 1,
        "use_cache": False, "use_qkv_bias": False, "use_qk_norm": True, "embedding_dropout": 0.0,
        "norm_softmax": False, "output_dropout": 0.0, "vocab_size": ids.size,
        "rotary_dim": width // 4, "using_split_qkv_in_self_attention": False,
        "router_dtype": "fp32", "moe_router_enable_expert_bias": True,
        "routed_scaling_factor": 2.5, "n_group": 2, "topk_group": 1, "score_function": "sigmoid",
        "initializer_range": 0.02, "max_window_layers": 28, "output_router_logits": False,
        "pad_token_id": ids["<|endoftext|>"], "partial_rotary_factor": 0.5,
        "use_sliding_window": False,
    }  # fmt: skip


def _llada2(name: str, shards: int) -> Standin:
    return Standin(
        id=f"inclusionAI/{name}",
        vocabulary=LING,
        config=_llada2_config,
        tensor_shapes=weights.llada2,
        mask="<|mask|>",
        end="<|endoftext|>",
        tokenizer_config=_TOKENIZER,
        special_tokens_map=_NAMES,
        template=TEMPLATE,
        shards=shards,
        source="the authors' config.json files in inclusionAI/dFactory @ c29d72c, "
        "configs/model_configs, which have pad_token_id alone; that of Zigeng/DMax-Math-16B on "
        "the hub, which descends from LLaDA2.0-mini, has the same keys",
        unknown="the tokenizer's files, taken to be those of LLaDA-MoE without the mask token; "
        "whether there is a generation_config.json; the number of shards",
    )


STANDINS = (
    _moe("LLaDA-MoE-7B-A1B-Base"),
    _moe("LLaDA-MoE-7B-A1B-Instruct"),
    _llada2("LLaDA2.0-mini", shards=4),
    _llada2("LLaDA2.0-mini-CAP", shards=4),
    _llada2("LLaDA2.0-flash", shards=8),
    _llada2("LLaDA2.0-flash-CAP", shards=8),
    _llada2("LLaDA2.1-mini", shards=4),
    _llada2("LLaDA2.1-flash", shards=8),
)
