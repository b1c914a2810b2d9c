"""Published checkpoints that write block by block, but for LLaDA2: see `catalog`.

What their files hold is said here too, as far as it was read, because stand-ins follow it.
"""

from remask.denoisers.published import Checkpoint, Published, Setting


def a2d(task: str, shots: int, accuracy: float, *, block: int = 256) -> Published:
    """Return a preset of dllm's samplers: `block` is the length where all is written at once."""
    way = "mdlm" if block == 256 else "bd3lm"
    return Published(
        task=task, accuracy=accuracy, prompt=f"{shots} examples, chat",
        source=f"ZHZisZZ/dllm, examples/a2d/{way}/eval.sh and examples/a2d/README.md",
        settings={
            "max_new_tokens": 256, "steps": 256, "block_size": block, "cfg_scale": 0.0,
            "temperature": 0.0,
        },
    )  # fmt: skip


# Files of a bd3lm checkpoint are those of its mdlm sibling: Qwen's own config.json, with no
# block_size and no mask_token_id; the tokenizer has <|mask|>, <|im_start|>, <|im_end|> (EOS) and
# <|endoftext|> (padding).
_A2D_BLOCK = tuple(
    a2d(task, 3 if task == "BBH" else 0, accuracy, block=32)
    for task, accuracy in (
        ("GSM8K", 46.3), ("BBH", 26.6), ("MATH", 12.9), ("MMLU-Pro", 13.8), ("HumanEval", 46.3),
        ("MBPP", 38.2),
    )
)  # fmt: skip
_A2D_CODER_BLOCK = (
    a2d("HumanEval", 0, 39.0, block=32),
    a2d("MBPP", 0, 33.2, block=32),
)

_SDAR_README = (
    "JetAstra/SDAR, README.md (greedy) and evaluation/opencompass/configs/eval_sdar_hf.py (length)"
)
# By task, as the README's first table has them: 1.7B, 4B, 8B, 30B-A3B.
_SDAR_SCORES = {
    "GSM8K": (80.1, 89.9, 91.3, 91.4),
    "MATH500": (63.2, 72.8, 78.6, 77.8),
    "MathBench": (63.6, 74.7, 76.9, 79.3),
    "MMLU": (62.9, 74.9, 78.6, 82.8),
    "HumanEval": (61.6, 72.0, 78.7, 87.2),
    "MBPP": (61.1, 65.4, 72.0, 71.6),
    "IFEval": (43.4, 56.6, 61.4, 60.6),
}
_SDAR_GREEDY: dict[str, Setting] = {
    "gen_length": 4096, "block_length": 4, "denoising_steps": 4, "temperature": 0.0,
    "remasking": "low_confidence",
}  # fmt: skip
_SDAR_SAMPLED = Published(
    task="sampled, dynamic", accuracy=None, source="JetAstra/SDAR, generate.py (its defaults)",
    settings={
        "gen_length": 20_480, "block_length": 4, "denoising_steps": 4, "temperature": 1.0,
        "top_k": 0, "top_p": 1.0, "remasking_strategy": "low_confidence_dynamic",
        "confidence_threshold": 0.85,
    },
)  # fmt: skip


def _sdar(
    size: str, number: int, num_parameters: int, width: int, num_kept: int, *, experts: int = 0
) -> Checkpoint:
    """Return SDAR of a size, the `number`-th in the table of scores.

    Its config.json has Qwen3's keys, tie_word_embeddings false at every size; block_size (4) and
    mask_token_id (151669) only in the copies that the authors train from. tokenizer_config.json
    names <|MASK|> as mask_token and <|endoftext|> as EOS and padding; added_tokens.json spells the
    mask <MASK>. generation_config.json is Qwen3's, with temperature 0.6, top_k 20, top_p 0.95.
    """
    presets = tuple(
        Published(task=task, settings=_SDAR_GREEDY, accuracy=scores[number], source=_SDAR_README)
        for task, scores in _SDAR_SCORES.items()
    )
    return Checkpoint(
        id=f"JetLM/SDAR-{size}-Chat", family="SDAR",
        architecture="SDARMoeForCausalLM" if experts else "SDARForCausalLM",
        num_parameters=num_parameters, width=width, vocab_size=151_936, context=32_768,
        licence=None if experts else "Apache-2.0", experts_per_token=experts, num_kept=num_kept,
        presets=(*presets, _SDAR_SAMPLED),
    )  # fmt: skip


def _trado(size: str, num_parameters: int, width: int, scores: dict[str, float]) -> Checkpoint:
    """Return TraDo of a size; its files are those of SDAR."""
    presets = tuple(
        Published(
            task=task, accuracy=accuracy,
            source="Gen-Verse/dLLM-RL, configs/trado_eval.yaml; accuracy: its README.md, dynamic",
            settings={
                "max_token": 2000, "block_size": 4, "denoising_steps_per_block": 4,
                "temperature": 1.0, "top_k": 0, "top_p": 1.0,
                "remasking_strategy": "low_confidence_dynamic", "dynamic_threshold": 0.9,
            },
        )
        for task, accuracy in scores.items()
    )  # fmt: skip
    return Checkpoint(
        id=f"Gen-Verse/TraDo-{size}-Instruct", family="SDAR", architecture="SDARForCausalLM",
        num_parameters=num_parameters, width=width, vocab_size=151_936, context=32_768,
        licence=None, num_kept=73_728, presets=presets,
    )  # fmt: skip


_TRADO_TASKS = ("GSM8K", "MATH500", "AIME2024", "LiveCodeBench-v2", "LiveBench")

# config.json has Qwen3-8B's keys under model_type "Dream", with block_size 32 and mask_token_id
# 151669; head_dim may be null. Special tokens are Qwen3's.
_DREAMREASONER = (
    Published(
        task="chat", accuracy=None,
        settings={
            "max_new_tokens": 2048, "block_length": 32, "denoising_steps": 32, "temperature": 0.0,
            "top_k": 0, "top_p": 1.0, "remasking_strategy": "low_confidence_dynamic",
            "confidence_threshold": 0.9,
        },
        source="length and block: DreamLM/DreamReasoner, README.md; the rest: defaults of the "
        "checkpoint's block_diffusion_generate(), read in third-party ports of it",
        prompt="chat, thinking aloud",
    ),
)  # fmt: skip


def _fast_dllm_presets(scores: dict[str, float]) -> tuple[Published, ...]:
    """Return the presets of Fast-dLLM v2: how its chatbot samples, and how it was evaluated."""
    usual: dict[str, Setting] = {
        "max_new_tokens": 2048,
        "block_size": 32,
        "small_block_size": 8,
        "temperature": 0.0,
        "use_block_cache": False,
    }
    source = "NVlabs/Fast-dLLM, v2/eval_script.sh, v2/eval.py and v2/README.md, read in forks"
    return (
        Published(
            task="chat",
            settings={**usual, "threshold": 0.9},
            accuracy=None,
            source="NVlabs/Fast-dLLM, v2/run_chatbot.py",
        ),
        *(
            Published(
                task=task,
                settings={**usual, "threshold": 1.0},
                accuracy=accuracy,
                source=source,
                prompt="no examples, chat",
            )
            for task, accuracy in scores.items()
        ),
    )


def _fast_dllm(
    size: str, num_parameters: int, width: int, vocab_size: int, num_kept: int,
    scores: dict[str, float],
) -> Checkpoint:  # fmt: skip
    """Return Fast-dLLM v2 of a size.

    Its config.json has Qwen2.5's keys and bd_size (32), eos_token_id 151645 (<|im_end|>),
    pad_token_id the same in the 7B, and no mask_token_id; the mask, |<MASK>|, stands among the
    additional_special_tokens alone. generation_config.json is Qwen2.5's, with temperature 0.7,
    top_k 20, top_p 0.8. There is vocab.json and merges.txt, no tokenizer.json.
    """
    return Checkpoint(
        id=f"Efficient-Large-Model/Fast_dLLM_v2_{size}", family="Fast-dLLM",
        architecture="Fast_dLLM_QwenForCausalLM", num_parameters=num_parameters, width=width,
        vocab_size=vocab_size, context=32_768, licence="Apache-2.0", num_kept=num_kept,
        tied=size == "1.5B",
        presets=_fast_dllm_presets(scores),
    )  # fmt: skip


BLOCK_CHECKPOINTS = (
    Checkpoint(
        id="dllm-hub/Qwen3-0.6B-diffusion-bd3lm-v0.1", family="A2D",
        architecture="A2DQwen3LMHeadModel", num_parameters=596_049_920, width=1024,
        vocab_size=151_936, context=512, licence=None, num_kept=57_344, tied=True,
        presets=_A2D_BLOCK,
    ),
    Checkpoint(
        id="dllm-hub/Qwen2.5-Coder-0.5B-Instruct-diffusion-bd3lm-v0.1", family="A2D",
        architecture="A2DQwen2LMHeadModel", num_parameters=494_032_768, width=896,
        vocab_size=151_936, context=512, licence=None, num_kept=6144, tied=True,
        presets=_A2D_CODER_BLOCK,
    ),
    _sdar("1.7B", 0, 2_031_739_904, 2048, 57_344),
    _sdar("4B", 1, 4_411_424_256, 2560, 73_728),
    _sdar("8B", 2, 8_190_735_360, 4096, 73_728),
    _sdar("30B-A3B", 3, 30_532_122_624, 2048, 49_152, experts=8),
    _trado(
        "4B", 4_411_424_256, 2560,
        dict(zip(_TRADO_TASKS, (90.3, 71.8, 10.3, 15.1, 10.4), strict=True)),
    ),
    _trado(
        "8B", 8_190_735_360, 4096,
        dict(zip(_TRADO_TASKS, (91.2, 75.5, 11.0, 22.4, 20.6), strict=True)),
    ),
    Checkpoint(
        id="Dream-org/DreamReasoner-8B", family="DreamReasoner", architecture="DreamForCausalLM",
        num_parameters=8_190_735_360, width=4096, vocab_size=151_936, context=32_768,
        licence="Apache-2.0", num_kept=73_728, presets=_DREAMREASONER,
    ),
    _fast_dllm(
        "1.5B", 1_543_714_304, 1536, 151_936, 14_336,
        {"GSM8K": 62.0, "MATH": 38.1, "IFEval": 47.0},
    ),
    _fast_dllm(
        "7B", 7_615_616_512, 3584, 152_064, 28_672,
        {"GSM8K": 83.7, "MATH": 61.6, "IFEval": 61.4},
    ),
)  # fmt: skip
