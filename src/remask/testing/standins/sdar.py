"""JetLM's SDAR, Gen-Verse's TraDo and Fast-dLLM v2: block diffusion on Qwen's weights."""

from dataclasses import replace
from functools import partial

from remask.testing.standins import qwen, weights
from remask.testing.standins.standin import Json, Standin, token
from remask.testing.standins.vocabulary import Numbered, Vocabulary

# The mask token is no special one in tokenizer_config.json.
SDAR = Vocabulary(
    kind="SDAR", special=qwen.SPECIAL, plain={**qwen.PLAIN3, "<|MASK|>": 151_669}, size=151_936
)


def _config(ids: Numbered, width: int, *, sparse: bool) -> Json:
    end, name = ids["<|endoftext|>"], "SDARMoe" if sparse else "SDAR"
    file = "sdar_moe" if sparse else "sdar"
    experts = {
        "decoder_sparse_step": 1, "mlp_only_layers": [], "moe_intermediate_size": width // 2,
        "norm_topk_prob": True, "num_experts": 8, "num_experts_per_tok": 2,
        "output_router_logits": False, "router_aux_loss_coef": 0.001,
    }  # fmt: skip
    return {
        "architectures": [f"{name}ForCausalLM"],
        "auto_map": {
            "AutoConfig": f"configuration_{file}.{name}Config",
            "AutoModel": f"modeling_{file}.{name}Model",
            "AutoModelForCausalLM": f"modeling_{file}.{name}ForCausalLM",
        },
        **qwen.config3(ids, width), "bos_token_id": end, "eos_token_id": end,
        "fuse_cross_entropy": False, "max_position_embeddings": 32768, "model_type": file,
        "transformers_version": "4.52.4", **(experts if sparse else {}),
    }  # fmt: skip


def _sdar(name: str, *, sparse: bool = False) -> Standin:
    extra = ("<|MASK|>",)
    return Standin(
        id=name,
        vocabulary=SDAR,
        config=partial(_config, sparse=sparse),
        tensor_shapes=partial(weights.sparse_decoder, inner="moe_intermediate_size")
        if sparse
        else partial(weights.decoder, qk_norm=True),
        mask="<|MASK|>",
        end="<|endoftext|>",
        tokenizer_config={
            **qwen.tokenizer_config("<|endoftext|>", extra), "mask_token": "<|MASK|>",
            "auto_map": {"AutoTokenizer": ["tokenization_qwen2.Qwen2Tokenizer", None]},
        },
        special_tokens_map={
            "additional_special_tokens": [*list(qwen.SPECIAL)[1:], "<MASK>"],
            "eos_token": token("<|endoftext|>"), "pad_token": token("<|endoftext|>"),
        },
        template=qwen.TEMPLATE3,
        generation=qwen.generation3,
        slow=True,
        added={"<|MASK|>": "<MASK>"},  # the authors' files disagree on the spelling
        shards=4,
        source="the folder of SDAR-8B-Chat in JetAstra/SDAR @ c2041a8, training/model; config.json "
        "of SDAR-1.7B-Chat in Linn3a/DARE @ c96b1e0, which lacks mask_token_id and block_size",
        unknown="the files of TraDo and of the mixture of experts, whose further keys are "
        "Qwen3-MoE's" if sparse or name.startswith("Gen-Verse") else "nothing but the weights",
    )  # fmt: skip


FAST = Vocabulary(
    kind="Fast-dLLM v2",
    special={**qwen.SPECIAL, "|<MASK>|": 151_665},
    plain=qwen.PLAIN2,
    size=152_064,
)


def _fast_config(ids: Numbered, width: int) -> Json:
    return {
        "architectures": ["Fast_dLLM_QwenForCausalLM"],
        "auto_map": {
            "AutoConfig": "configuration.Fast_dLLM_QwenConfig",
            "AutoModel": "modeling.Fast_dLLM_QwenModel",
            "AutoModelForCausalLM": "modeling.Fast_dLLM_QwenForCausalLM",
        },
        **qwen.config2(ids, width), "bd_size": 32, "bos_token_id": ids["<|endoftext|>"],
        "conplemenrary_mask": True, "eos_token_id": ids["<|im_end|>"],
        "layer_types": ["full_attention"] * 2, "max_position_embeddings": 32768,
        "model_type": "Fast_dLLM_Qwen", "pad_token_id": ids["<|im_end|>"],
        "transformers_version": "4.53.1",
    }  # fmt: skip


def _fast(name: str, size: int, unknown: str) -> Standin:
    return Standin(
        id=f"Efficient-Large-Model/{name}",
        vocabulary=replace(FAST, size=size),
        config=_fast_config,
        tensor_shapes=partial(weights.decoder, qkv_bias=True),
        mask="|<MASK>|",
        end="<|im_end|>",
        tokenizer_config={
            **qwen.tokenizer_config("<|im_end|>", ()),
            "additional_special_tokens": ["|<MASK>|"], "extra_special_tokens": {},
            "padding_side": "right",
        },
        special_tokens_map={
            "additional_special_tokens": [token("|<MASK>|")],
            "eos_token": token("<|im_end|>"), "pad_token": token("<|endoftext|>"),
        },
        template=qwen.template2(qwen.BASE_SYSTEM),
        template_file=True,
        generation=qwen.generation2,
        fast=False,
        slow=True,
        added={},
        shards=4,
        source="the folder Fast_dLLM_v2_7B in Satgoy152/DualDiffusion, a copy of the hub's",
        unknown=unknown,
    )  # fmt: skip


# A kin of SDAR by a third house; its mask token is thought to be spelled as theirs.
def _reasoner_config(ids: Numbered, width: int) -> Json:
    end = ids["<|endoftext|>"]
    return {
        "architectures": ["DreamForCausalLM"],
        "auto_map": {
            "AutoConfig": "configuration_dream.DreamConfig",
            "AutoModel": "modeling_dream.DreamModel",
            "AutoModelForCausalLM": "modeling_dream.DreamForCausalLM",
        },
        **qwen.config3(ids, width), "block_size": 32, "bos_token_id": end, "eos_token_id": end,
        "mask_token_id": ids["<|mask|>"], "max_position_embeddings": 32768, "model_type": "Dream",
        "pad_token_id": end,
    }  # fmt: skip


REASONER = Standin(
    id="Dream-org/DreamReasoner-8B",
    vocabulary=Vocabulary(
        kind="DreamReasoner",
        special={**qwen.SPECIAL, "<|mask|>": 151_669},
        plain=qwen.PLAIN3,
        size=151_936,
    ),
    config=_reasoner_config,
    tensor_shapes=partial(weights.decoder, qk_norm=True),
    mask="<|mask|>",
    end="<|endoftext|>",
    tokenizer_config=qwen.tokenizer_config("<|endoftext|>", ("<|mask|>",)),
    template=qwen.TEMPLATE3,
    asked_with={"enable_thinking": True},
    generation=qwen.generation3,
    slow=True,
    shards=4,
    source="the authors' README (DreamLM/DreamReasoner) for how it is asked; two ports that load "
    "the checkpoint for model_type, block_size 32, mask_token_id 151669 and the names of tensors",
    unknown="every file: keys, tokens and sampling are Qwen3's",
)

STANDINS = (
    *(_sdar(f"JetLM/SDAR-{size}-Chat") for size in ("1.7B", "4B", "8B")),
    _sdar("JetLM/SDAR-30B-A3B-Chat", sparse=True),
    *(_sdar(f"Gen-Verse/TraDo-{name}") for name in ("4B-Instruct", "8B-Instruct", "8B-Thinking")),
    REASONER,
    _fast("Fast_dLLM_v2_7B", 152_064, "whether tokenizer.json, absent in the copy, is there"),
    _fast(
        "Fast_dLLM_v2_1.5B",
        151_936,
        "that 1.5B has the files of 7B with the vocabulary of its ancestor; its head may be tied",
    ),
)
