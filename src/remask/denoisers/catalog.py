"""Checkpoints that others have published: what they are, what they need, how they were sampled.

This is data alone, and it does without torch; that of most block models is in `block_catalog`. Not
here: how a preset becomes the settings of our sampler (`presets`), and which architectures load
(`load.FAMILIES`).
"""

from remask.denoisers.block_catalog import BLOCK_CHECKPOINTS, a2d
from remask.denoisers.published import Checkpoint, Published, Setting
from remask.settings import nearest

_EVAL_MD = "ML-GSAI/LLaDA, EVAL.md"
_SHOTS = "4 worked examples as chat turns"
_BOXED = "no examples; asks for steps and a boxed answer"


def _llada(
    task: str,
    length: int,
    block: int,
    accuracy: float | None,
    *,
    eos: str = "",
    prompt: str = "",
    source: str = f"{_EVAL_MD} (OpenCompass)",
) -> Published:
    """Return a preset of LLaDA's generate(); `eos` names the rule that is switched on."""
    settings: dict[str, Setting] = {
        "gen_length": length, "steps": length, "block_length": block, "temperature": 0.0,
        "cfg_scale": 0.0, "remasking": "low_confidence",
        "logits_eos_inf": eos == "logits_eos_inf",
        "confidence_eos_eot_inf": eos == "confidence_eos_eot_inf",
    }  # fmt: skip
    return Published(task=task, settings=settings, accuracy=accuracy, source=source, prompt=prompt)


_CONF = "confidence_eos_eot_inf"
_SCRIPT = "ML-GSAI/LLaDA, opencompass/examples/llada_instruct_gen_*.py"
_LLADA_BASE = tuple(
    _llada(
        task if length == 1024 else f"{task}, length {length}", length, length, accuracy,
        source=f"{_EVAL_MD} (lm-eval)",
    )
    for length, scores in (
        (1024, (70.3, 31.4, 49.7, 35.4, 40.0)),
        (512, (70.8, 30.9, 50.4, 32.9, 39.2)),
        (256, (70.0, 30.3, 45.0, 32.9, 40.2)),
    )
    for task, accuracy in zip(("GSM8K", "MATH", "BBH", "HumanEval", "MBPP"), scores, strict=True)
)  # fmt: skip
_LLADA_INSTRUCT = (
    _llada("GSM8K", 256, 8, 78.9, prompt=_SHOTS),
    _llada("MATH", 512, 64, 42.7, prompt=_BOXED),
    _llada("GSM8K, pure diffusion", 512, 512, 68.8, eos=_CONF, prompt=_SHOTS),
    _llada("MATH, pure diffusion", 512, 512, 29.6, eos=_CONF, prompt=_BOXED),
    _llada("HumanEval", 512, 512, 47.0, eos="logits_eos_inf"),
    _llada("MBPP", 256, 256, 39.6, eos=_CONF),
    _llada("GPQA", 64, 64, 32.3, eos=_CONF),
    _llada("MMLU", 3, 3, 65.4),
    _llada("MMLU-Pro", 256, 256, 36.6),
    _llada("HellaSwag", 3, 3, 75.3),
    _llada("ARC-C", 512, 512, 89.2),
    # In the authors' scripts, and not in their tables.
    _llada("IFEval", 512, 512, None, eos=_CONF, source=_SCRIPT),
    _llada("GPQA, block 64", 128, 64, None, source=_SCRIPT),
    _llada("HumanEval, block 32", 512, 32, None, source=_SCRIPT),
    _llada("MBPP, block 32", 512, 32, None, source=_SCRIPT),
    _llada("MATH, length 256", 256, 256, None, prompt=_BOXED, source=_SCRIPT),
)
_LLADA_15 = (
    _llada("GSM8K", 256, 16, 83.6, eos=_CONF, prompt=_SHOTS),
    _llada("MATH", 1024, 128, 42.3, eos=_CONF, prompt=_BOXED),
    _llada("GPQA", 256, 16, 34.8),
    _llada("HumanEval", 512, 32, 51.2, eos=_CONF),
    _llada("MBPP", 512, 32, 42.6, eos=_CONF),
    _llada("IFEval", 256, 16, 65.2, eos=_CONF),
)


def _dream(
    task: str,
    length: int,
    temperature: float,
    top_p: float,
    accuracy: float | None,
    source: str,
    prompt: str = "",
    *,
    top_k: int | None = None,
) -> Published:
    """Return a preset of Dream's diffusion_generate(), in the order of least entropy.

    `top_k` is `_HIDDEN_TOP_K` where the authors' call gives none, and None where it gives None.
    """
    settings: dict[str, Setting] = {
        "max_new_tokens": length, "steps": length, "temperature": temperature, "top_p": top_p,
        "alg": "entropy", "alg_temp": 0.0,
    }  # fmt: skip
    if top_k is not None:
        settings["top_k"] = top_k
    return Published(task=task, settings=settings, accuracy=accuracy, source=source, prompt=prompt)


# diffusion_generate() begins with what the model's configuration says of sampling. The library that
# the authors ask for (transformers 4.46.2) fills that in for every model, with a top_k of 50.
_HIDDEN_TOP_K = 50
_IMPLIED = "; top_k: what transformers 4.46.2 adds to a call without one"
_QUOTED = "accuracy: the authors' figures as quoted by ZHZisZZ/dllm, examples/dream/README.md"
_DREAM_EVAL = f"DreamLM/Dream, eval/eval_dream_gen.sh and eval/eval.py; {_QUOTED}"
_DREAM_EVAL_INSTRUCT = f"DreamLM/Dream, eval_instruct/eval.sh; {_QUOTED}"
_DREAM_BASE = tuple(
    _dream(task, length, temperature, 0.95, accuracy, _DREAM_EVAL, f"{shots} examples, after BOS")
    for task, shots, length, temperature, accuracy in (
        ("GSM8K", 8, 256, 0.0, 77.2),
        ("MATH", 4, 512, 0.0, 39.6),
        ("BBH", 3, 512, 0.0, 57.9),
        ("HumanEval", 0, 512, 0.2, 57.9),
        ("MBPP", 3, 512, 0.2, 56.2),
    )
)
_DREAM_INSTRUCT = (
    *(
        _dream(task, length, 0.1, 0.9, accuracy, _DREAM_EVAL_INSTRUCT, f"{shots} examples, chat")
        for task, shots, length, accuracy in (
            ("GSM8K", 0, 256, 81.0),
            ("MATH", 0, 512, 39.2),
            ("HumanEval", 0, 768, 55.5),
            ("MBPP", 0, 1024, 58.8),
            ("IFEval", 0, 1280, 62.5),
            ("MMLU", 4, 128, 67.0),
            ("MMLU-Pro", 4, 128, 43.3),
        )
    ),
    _dream(
        "chat", 512, 0.2, 0.95, None, f"DreamLM/Dream, README.md{_IMPLIED}", top_k=_HIDDEN_TOP_K
    ),
)
_DREAM_CODER = (
    _dream(
        "chat", 768, 0.1, 0.95, None, f"DreamLM/Dream-Coder, README.md{_IMPLIED}",
        top_k=_HIDDEN_TOP_K,
    ),
    Published(
        task="code", accuracy=None, source="DreamLM/Dream-Coder, README.md (its demonstrations)",
        settings={
            "max_new_tokens": 512, "diffusion_steps": 512, "temperature": 0.1, "top_p": 1.0,
            "alg": "entropy", "alg_temp": 0.0, "eos_penalty": 3.0,
        },
    ),
)  # fmt: skip
_DIFFUCODER = (
    _dream(
        "code", 256, 0.3, 0.95, None, f"apple/ml-diffucoder, inference_demo.py{_IMPLIED}",
        top_k=_HIDDEN_TOP_K,
    ),
)  # fmt: skip


_FORK = "the authors' evaluation script, read in a fork, mercurystraw/LLaDA"


def _illada(
    task: str,
    length: int,
    steps: int,
    grows: bool,
    prompt: str = "",
    *,
    boost: float = 0.0,
    accuracy: float | None = None,
) -> Published:
    """Return a preset of iLLaDA's generate(), or of its var_generate(), which `grows`."""
    settings: dict[str, Setting] = {
        "gen_length": length,
        "steps": steps,  # of each block, where the canvas grows
        "block_length": steps,
        "temperature": 0.0,
        "remasking": "low_confidence",
        "var": grows,
    }
    if boost:
        settings |= {"end_think_logit_boost": 100.0, "end_think_boost_power": boost}
    remark = "" if accuracy is None else "; accuracy: quoted by a third party, settings unknown"
    return Published(
        task=task, settings=settings, accuracy=accuracy, source=_FORK + remark, prompt=prompt
    )


_LLADA_MOE_INSTRUCT = tuple(
    Published(
        task=task, accuracy=None, prompt=prompt,
        source="inclusionAI/dInfer, evaluations/eval_llada_moe.sh (there with a dual cache)",
        settings={
            "gen_length": 1024, "block_length": 64, "parallel_decoding": "threshold",
            "threshold": 0.76,
        },
    )
    for task, prompt in (("GSM8K", "4 examples, chat"), ("MBPP sanitized", "chat"))
)  # fmt: skip
_CARD = "model card of inclusionAI/LLaDA2.1-mini"
# Of the tasks on that card: LLaDA2.0-mini, LLaDA2.1-mini in quality mode and in speed mode.
_LLADA2_SCORES = {
    "GSM-Plus": (86.50, 86.55, 85.88),
    "CMATH": (95.72, 94.99, 95.63),
    "HumanEval+": (81.40, 82.93, 80.49),
    "MBPP+": (78.24, 74.07, 73.28),
    "GPQA": (47.76, 53.28, 48.36),
    "MMLU-Pro": (64.27, 64.84, 63.42),
    "IFEval, strict prompt": (80.78, 83.18, 81.33),
}
_LLADA20_DEFAULTS: dict[str, Setting] = {
    "gen_length": 2048, "block_length": 32, "steps": 32, "temperature": 0.0, "threshold": 0.95,
    "minimal_topk": 1, "eos_early_stop": False,
}  # fmt: skip
_LLADA20 = tuple(
    Published(
        task=task,
        settings=_LLADA20_DEFAULTS,
        accuracy=scores[0],
        source=f"settings: defaults of the checkpoint's generate(); accuracy: {_CARD}, which does "
        "not say how it was sampled",
    )
    for task, scores in _LLADA2_SCORES.items()
)
_LLADA21 = tuple(
    Published(
        task=f"{task}, {mode}", accuracy=scores[number], source=_CARD,
        settings={
            "gen_length": 16384, "block_length": 32, "temperature": 0.0, "threshold": threshold,
            "editing_threshold": editing_threshold, "max_post_steps": 16,
        },
    )
    for number, mode, threshold, editing_threshold in (
        (1, "quality mode", 0.7, 0.5),
        (2, "speed mode", 0.5, 0.0),
    )
    for task, scores in _LLADA2_SCORES.items()
)  # fmt: skip
_FLASH = "defaults of generate() of the architecture, read in ZHZisZZ/dllm; accuracy: not read"
_LLADA20_CHAT = (Published(task="chat", settings=_LLADA20_DEFAULTS, accuracy=None, source=_FLASH),)
_LLADA21_FLASH = (
    Published(
        task="chat", accuracy=None, source=_FLASH,
        settings={
            "gen_length": 2048, "block_length": 32, "temperature": 0.0, "threshold": 0.95,
            "editing_threshold": 0.9, "max_post_steps": 16,
        },
    ),
)  # fmt: skip
_A2D = tuple(
    a2d(task, shots, accuracy)
    for task, shots, accuracy in (
        ("GSM8K", 5, 29.3), ("BBH", 3, 26.7), ("MATH", 0, 8.7), ("MMLU-Pro", 0, 17.3),
        ("HumanEval", 0, 30.5), ("MBPP", 0, 29.2),
    )
)  # fmt: skip
_A2D_CODER = (a2d("HumanEval", 0, 28.1), a2d("MBPP", 0, 23.0))

_ILLADA_BASE = (
    _illada("GSM8K", 1024, 32, True, "8 examples"),
    _illada("MATH", 1024, 32, True),
    _illada("HumanEval", 512, 512, False),
    _illada("BBH", 1024, 32, True),
    _illada("MBPP", 1024, 32, True),
)
_ILLADA_INSTRUCT = (
    _illada("GSM8K", 2048, 32, True, "no examples, chat", boost=3.0),
    _illada("MATH", 4096, 32, True, "no examples, chat", boost=3.0),
    _illada("MMLU", 3, 3, False, "5 examples, chat", accuracy=71.6),
    _illada("MMLU-Redux", 4, 4, False, "5 examples, chat"),
    _illada("MMLU-Pro", 4096, 32, True, "no examples, chat", boost=3.0),
    _illada("HumanEval", 2048, 32, True, "no examples, chat", boost=1.0),
    _illada("MBPP", 2048, 16, True, "no examples, chat", boost=3.0),
)


def _llada_8b(name: str, licence: str | None, presets: tuple[Published, ...]) -> Checkpoint:
    return Checkpoint(
        id=f"GSAI-ML/{name}", family="LLaDA", architecture="LLaDAModelLM",
        num_parameters=8_015_581_184, width=4096, vocab_size=126_464, context=4096,
        licence=licence, presets=presets,
    )  # fmt: skip


def _illada_8b(name: str, presets: tuple[Published, ...]) -> Checkpoint:
    return Checkpoint(
        id=f"GSAI-ML/{name}", family="iLLaDA", architecture="ILLaDAForCausalLM",
        num_parameters=7_615_025_152, width=4096, vocab_size=155_136, context=8192,
        licence="Apache-2.0", tied=True, presets=presets,
    )  # fmt: skip


def _dream_7b(name: str, licence: str, presets: tuple[Published, ...]) -> Checkpoint:
    return Checkpoint(
        id=name, family="Dream", architecture="DreamModel",
        num_parameters=7_615_616_512, width=3584, vocab_size=152_064, context=2048,
        licence=licence, presets=presets,
    )  # fmt: skip


def _llada_moe(name: str, presets: tuple[Published, ...]) -> Checkpoint:
    return Checkpoint(
        id=f"inclusionAI/{name}", family="LLaDA-MoE", architecture="LLaDAMoEModelLM",
        num_parameters=7_356_880_896, width=2048, vocab_size=157_184, context=8192,
        licence="Apache-2.0", experts_per_token=8, presets=presets,
    )  # fmt: skip


def _llada2_flash(name: str, presets: tuple[Published, ...]) -> Checkpoint:
    # Sizes: config.json in configs/model_configs/llada2_flash of inclusionAI/dFactory.
    return Checkpoint(
        id=f"inclusionAI/{name}", family="LLaDA2", architecture="LLaDA2MoeModelLM",
        num_parameters=102_889_697_280, width=4096, vocab_size=157_184, context=16_384,
        licence=None, experts_per_token=8, num_float32=7936, num_kept=32_768, presets=presets,
    )  # fmt: skip


def _llada2(
    name: str, presets: tuple[Published, ...], licence: str | None = "Apache-2.0"
) -> Checkpoint:
    return Checkpoint(
        id=f"inclusionAI/{name}", family="LLaDA2", architecture="LLaDA2MoeModelLM",
        num_parameters=16_255_638_528, width=2048, vocab_size=157_184, context=32_768,
        licence=licence, experts_per_token=8, num_float32=4864, num_kept=20_480,
        presets=presets,
    )  # fmt: skip


CHECKPOINTS = (
    _llada_8b("LLaDA-8B-Base", "MIT", _LLADA_BASE),
    _llada_8b("LLaDA-8B-Instruct", "MIT", _LLADA_INSTRUCT),
    _llada_8b("LLaDA-1.5", None, _LLADA_15),
    _illada_8b("iLLaDA-8B-Base", _ILLADA_BASE),
    _illada_8b("iLLaDA-8B-Instruct", _ILLADA_INSTRUCT),
    _dream_7b("Dream-org/Dream-v0-Base-7B", "Apache-2.0", _DREAM_BASE),
    _dream_7b("Dream-org/Dream-v0-Instruct-7B", "Apache-2.0", _DREAM_INSTRUCT),
    _dream_7b("Dream-org/Dream-Coder-v0-Instruct-7B", "Apache-2.0", _DREAM_CODER),
    _dream_7b("apple/DiffuCoder-7B-Instruct", "Apple's own", _DIFFUCODER),
    _llada_moe("LLaDA-MoE-7B-A1B-Base", ()),
    _llada_moe("LLaDA-MoE-7B-A1B-Instruct", _LLADA_MOE_INSTRUCT),
    _llada2("LLaDA2.0-mini", _LLADA20),
    _llada2("LLaDA2.1-mini", _LLADA21),
    _llada2("LLaDA2.0-mini-CAP", _LLADA20_CHAT, licence=None),
    _llada2_flash("LLaDA2.0-flash", _LLADA20_CHAT),
    _llada2_flash("LLaDA2.0-flash-CAP", _LLADA20_CHAT),
    _llada2_flash("LLaDA2.1-flash", _LLADA21_FLASH),
    Checkpoint(
        id="dllm-hub/Qwen3-0.6B-diffusion-mdlm-v0.1", family="A2D",
        architecture="A2DQwen3LMHeadModel", num_parameters=596_049_920, width=1024,
        vocab_size=151_936, context=1024, licence=None, tied=True, presets=_A2D,
    ),
    Checkpoint(
        id="dllm-hub/Qwen2.5-Coder-0.5B-Instruct-diffusion-mdlm-v0.1", family="A2D",
        architecture="A2DQwen2LMHeadModel", num_parameters=494_032_768, width=896,
        vocab_size=151_936, context=1024, licence=None, tied=True, presets=_A2D_CODER,
    ),
    *BLOCK_CHECKPOINTS,
)  # fmt: skip


def find(name: str) -> Checkpoint | None:
    """Return the checkpoint with this hub id, in any case; None where it is not listed."""
    return next((c for c in CHECKPOINTS if c.id.lower() == name.lower()), None)


def suggestion(name: str) -> str:
    """Return a question with the id that is spelled most like a name; "" if none is close."""
    ids = {one.id.rpartition("/")[2]: one.id for one in (TINY, *CHECKPOINTS)}
    near = nearest(name, ids.values()) or ids.get(nearest(name.rpartition("/")[2], ids) or "")
    return f" Did you mean {near}?" if near and near != name else ""


# The embedded model: not on the hub, and written by its own preset.
TINY = Checkpoint(
    id="tiny", family="LLaDA", architecture="LLaDAModelLM", num_parameters=8_360_640, width=320,
    vocab_size=1024, context=512, licence="Apache-2.0", tied=True,
)  # fmt: skip
