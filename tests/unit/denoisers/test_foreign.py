"""Damaged and foreign checkpoints: each is refused in one sentence that names the cause.

Every case takes a checkpoint that loads, does one thing to it, and says what the sentence must
name. None may load, and none may end in another error than ours.
"""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

import remask
from remask.denoisers.load import outline
from remask.errors import CheckpointError, RemaskError
from remask.testing import tiny_tokenizer, write_checkpoint

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
BLOCK = "model.transformer.blocks."
Q = f"{BLOCK}0.q_proj.weight"
Damage = Callable[[Path], object]


def config(**changes: Any) -> Damage:
    def damage(folder: Path) -> None:
        value = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**value, **changes}))

    return damage


def tensors(change: Callable[[dict[str, Tensor]], object]) -> Damage:
    def damage(folder: Path) -> None:
        stored = load_file(folder / WEIGHTS)
        change(stored)
        save_file(stored, folder / WEIGHTS)

    return damage


def file(name: str, content: bytes | str) -> Damage:
    data = content.encode() if isinstance(content, str) else content
    return lambda folder: (folder / name).write_bytes(data)


def without(*names: str) -> Damage:
    return lambda folder: [(folder / name).unlink() for name in names]


def all_of(*steps: Damage) -> Damage:
    return lambda folder: [step(folder) for step in steps]


def cut(num_bytes: int) -> Damage:
    def damage(folder: Path) -> None:
        whole = (folder / WEIGHTS).read_bytes()
        (folder / WEIGHTS).write_bytes(whole[:num_bytes])

    return damage


def sharded(change: Callable[[dict[str, str]], object]) -> Damage:
    """Return what replaces the single file by two and an index, which `change` then edits."""

    def damage(folder: Path) -> None:
        write_checkpoint(folder, shards=2, dtype=torch.float32)
        index = json.loads((folder / INDEX).read_text())
        change(index["weight_map"])
        (folder / INDEX).write_text(json.dumps(index))

    return damage


def moved(target: str) -> Damage:
    """Return what makes the weights a link to a file at `target`."""

    def damage(folder: Path) -> None:
        elsewhere = folder / target
        elsewhere.parent.mkdir(exist_ok=True)
        (folder / WEIGHTS).rename(elsewhere)
        (folder / WEIGHTS).symlink_to(elsewhere)

    return damage


def coded(dtype: torch.dtype, suffix: str) -> Callable[[dict[str, Tensor]], object]:
    """Return what stores a matrix as whole numbers, and its scales beside it."""

    def change(stored: dict[str, Tensor]) -> None:
        scale = stored[Q].abs().amax(1, keepdim=True) / 127
        stored[Q.removesuffix(".weight") + suffix] = scale
        stored[Q] = (stored[Q] / scale).to(dtype)

    return change


def gptq(stored: dict[str, Tensor]) -> None:
    matrix = stored.pop(Q)
    root = Q.removesuffix("weight")
    stored[f"{root}qweight"] = torch.zeros(4, len(matrix), dtype=torch.int32)
    stored[f"{root}scales"] = torch.ones(1, len(matrix), dtype=torch.float16)


def wider_tokenizer(folder: Path) -> None:
    backend = tiny_tokenizer().backend
    backend.add_tokens(["<extra>"])
    backend.save(str(folder / "tokenizer.json"))


def unmasked_tokenizer(folder: Path) -> None:
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace("<|mdm_mask|>", "<|other|>"))
    config(mask_token_id=None)(folder)


def prefixed(prefix: str) -> Damage:
    """Put the tensors under the names that a wrapper gives them."""

    def apply(folder: Path) -> None:
        stored = load_file(folder / WEIGHTS)
        save_file({f"{prefix}{name}": held for name, held in stored.items()}, folder / WEIGHTS)

    return apply


def emptied(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 123\n"
GGUF = all_of(emptied, file("model-Q4_K_M.gguf", b"GGUF" + bytes(40)))
HUGE = struct.pack("<Q", 2**62) + b"{}"
CASES: dict[str, tuple[Damage, str]] = {
    # Weights that are damaged or missing.
    "cut off": (cut(5000), "model.safetensors is corrupt"),
    "cut off in the header": (cut(40), "model.safetensors is corrupt"),
    "no bytes": (cut(0), "model.safetensors is corrupt"),
    "noise for a header": (file(WEIGHTS, b"\xff" * 64), "model.safetensors is corrupt"),
    "a header without end": (file(WEIGHTS, HUGE), "model.safetensors is corrupt"),
    "a missing tensor": (tensors(lambda t: t.pop(Q)), f"lacks the tensor {Q}"),
    "a missing shard": (
        sharded(lambda m: m.update({Q: "model-00009-of-00002.safetensors"})),
        "lacks the weights model-00009-of-00002.safetensors",
    ),
    "an index that names an absent tensor": (
        sharded(lambda m: m.update(ghost=next(iter(m.values())))),
        "lacks the tensor ghost, which model.safetensors.index.json lists in model-00001",
    ),
    "an index of a name that cannot be": (
        sharded(lambda m: m.update({Q: "n" * 5000})), "lacks the weights nnn",
    ),
    "an index of half a name": (
        sharded(lambda m: m.update({Q: "a\0b"})), "has no weight_map of file names",
    ),
    "an index that is no JSON": (
        all_of(sharded(lambda m: None), file(INDEX, "{")), "index.json is not valid JSON",
    ),
    "an index of lists": (
        sharded(lambda m: m.update({Q: ["b"]})), "has no weight_map of file names",
    ),
    "an index of nothing": (sharded(lambda m: m.clear()), "has no weight_map of file names"),
    "another shape": (
        tensors(lambda t: t.update({Q: torch.zeros(32, 16)})),
        f"tensor {Q} must have shape (32, 32) by config.json, got (32, 16)",
    ),
    "NaN": (tensors(lambda t: t[Q].fill_(float("nan"))), f"tensor {Q} holds NaN or infinity"),
    "infinity": (
        tensors(lambda t: t[Q].view(-1)[7:8].fill_(float("inf"))),
        f"tensor {Q} holds NaN or infinity",
    ),
    "a pointer for weights": (file(WEIGHTS, POINTER), "model.safetensors is a pointer of Git LFS"),
    "a pointer for a tokenizer": (
        file("tokenizer.json", POINTER), "tokenizer.json is a pointer of Git LFS",
    ),
    "a pointer for a configuration": (
        file("config.json", POINTER), "config.json is a pointer of Git LFS",
    ),
    "a folder for weights": (
        all_of(without(WEIGHTS), lambda folder: (folder / WEIGHTS).mkdir()), "must be a file",
    ),
    # Weights of another kind, or of another model.
    "int8 with SCB": (
        tensors(coded(torch.int8, ".SCB")), f"tensor {Q} is quantised (I8)",
    ),
    "float8 with scale_inv": (
        tensors(coded(torch.float8_e4m3fn, ".weight_scale_inv")),
        f"tensor {Q} is quantised (F8_E4M3)",
    ),
    "scales beside plain numbers": (
        tensors(lambda t: t.update({f"{BLOCK}0.q_proj.SCB": torch.ones(32)})),
        f"tensor {BLOCK}0.q_proj.SCB is quantised (F32)",
    ),
    "uint8": (
        tensors(lambda t: t.update({Q: torch.zeros(32, 32, dtype=torch.uint8)})),
        f"tensor {Q} is quantised (U8)",
    ),
    "GPTQ tensors": (tensors(gptq), f"tensor {BLOCK}0.q_proj.qweight is quantised (I32)"),
    **{
        f"quantization_config {method}": (
            config(quantization_config={"quant_method": method}),
            f"has a quantization_config ({method})",
        )
        for method in ("bitsandbytes", "gptq", "awq", "fp8", "compressed-tensors")
    },
    "a quantization_config of no name": (
        config(quantization_config={"bits": 4}), "has a quantization_config (unnamed)",
    ),
    "more layers than config.json": (
        config(n_layers=1),
        f"holds the tensor {BLOCK}1.attn_norm.weight and 8 more, and config.json has 1 layers",
    ),
    "fewer layers than config.json": (
        config(n_layers=3), f"lacks the tensor {BLOCK}2.attn_norm.weight and 8 more",
    ),
    "an extra bias": (
        tensors(lambda t: t.update({f"{BLOCK}0.q_proj.bias": torch.ones(32)})),
        f"holds the tensor {BLOCK}0.q_proj.bias, which the network does not use",
    ),
    "a norm the model does not have": (
        tensors(lambda t: t.update({f"{BLOCK}1.q_norm.weight": torch.ones(8)})),
        f"holds the tensor {BLOCK}1.q_norm.weight, which the network does not use",
    ),
    "adapters among the weights": (
        tensors(lambda t: t.update({f"{BLOCK}0.q_proj.lora_A.weight": torch.ones(4, 32)})),
        f"holds the tensor {BLOCK}0.q_proj.lora_A.weight of an adapter",
    ),
    "names of a training wrapper": (
        prefixed("module."),
        f"lacks the tensor {BLOCK}0.attn_norm.weight and 20 more, and holds module.{BLOCK}0.",
    ),
    "an adapter around the weights": (
        prefixed("base_model.model."), "attn_norm.weight of an adapter; merge it into the weights",
    ),
    "an adapter beside the weights": (
        file("adapter_config.json", "{}"), "holds an adapter, which would be ignored",
    ),
    "an adapter alone": (
        all_of(emptied, file("adapter_config.json", "{}"), file("adapter_model.safetensors", b"")),
        "holds only an adapter (adapter_config.json); merge it into the weights of its base model",
    ),
    "GGUF alone": (GGUF, "has model-Q4_K_M.gguf and no config.json: only safetensors are read"),
    ".bin alone": (
        all_of(without(WEIGHTS), file("pytorch_model.bin", b"PK")),
        "lacks the weights model.safetensors and has pytorch_model.bin: only safetensors are read",
    ),
    ".bin shards alone": (
        all_of(without(WEIGHTS), file("pytorch_model-00001-of-00002.bin", b"PK")),
        "has pytorch_model-00001-of-00002.bin: only safetensors are read",
    ),
    ".pt alone": (
        all_of(without(WEIGHTS), file("model.pt", b"PK")),
        "has model.pt: only safetensors are read, pickles could run code",
    ),
    "shards without an index": (
        lambda folder: (folder / WEIGHTS).rename(folder / "model-00001-of-00001.safetensors"),
        "lacks the weights model.safetensors, and model.safetensors.index.json to list",
    ),
    # Files outside the folder.
    "an index that leaves the folder": (
        sharded(lambda m: m.update({Q: "../other/model.safetensors"})),
        "lists '../other/model.safetensors', which is outside the folder",
    ),
    "an index with an absolute path": (
        sharded(lambda m: m.update({Q: "/etc/passwd"})),
        "lists '/etc/passwd', which is outside the folder",
    ),
    "a link out of the folder": (moved("../elsewhere.safetensors"), "outside the folder"),
    "a dangling link": (
        all_of(without(WEIGHTS), lambda folder: (folder / WEIGHTS).symlink_to("nowhere")),
        "lacks the weights model.safetensors",
    ),
    # config.json.
    "an empty folder": (emptied, "config.json does not exist; name the folder of a checkpoint."),
    "no JSON": (file("config.json", "{'a': 1}"), "config.json is not valid JSON"),
    "another encoding": (
        file("config.json", "{}".encode("utf-16")), "config.json is not valid JSON",
    ),
    "JSON without end": (file("config.json", "[" * 200_000), "config.json is not valid JSON"),
    "a list": (file("config.json", "[1]"), "config.json holds list, not an object"),
    "nothing": (file("config.json", "null"), "config.json holds NoneType, not an object"),
    "a folder for config.json": (
        all_of(without("config.json"), lambda folder: (folder / "config.json").mkdir()),
        "config.json: Is a directory",
    ),
    "null for a size": (config(d_model=None), "gives d_model as None; it must be a whole number"),
    "text for a size": (config(n_layers="2"), "gives n_layers as '2'; it must be a whole number"),
    "a negative size": (config(n_heads=-4), "gives n_heads as -4; it must be a whole number"),
    "a size of no machine": (config(n_layers=10**9), "gives n_layers as 1000000000; it must be at"),
    "sizes beyond counting": (
        config(d_model=10**9 - 8, mlp_hidden_size=10**9, n_heads=1, n_kv_heads=1),
        "",  # whichever comes first: that it cannot be, or that the tensors are smaller
    ),
    "infinity for theta": (config(rope_theta=float("inf")), "gives rope_theta as inf"),
    "heads that do not divide": (config(n_heads=3), "heads must divide the width evenly"),
    "an autoregressive model": (
        config(architectures=["LlamaForCausalLM"]), "this one looks autoregressive",
    ),
    "an encoder": (
        config(architectures=["BertForMaskedLM"]), "declares the architecture 'BertForMaskedLM'",
    ),
    "a diffusion model without masks": (
        config(architectures=["DiffusionGemmaForBlockDiffusion"]), "it has no mask token",
    ),
    "architectures of no kind": (
        config(architectures={"a": 1}), "gives architectures as {'a': 1}; it must be a list",
    ),
    "no architecture": (config(architectures=None), "declares no architecture"),
    "an ambiguous model_type": (
        config(architectures=None, model_type="llada"),
        "model_type 'llada' could be LLaDAModelLM or LLaDAMoEModelLM",
    ),
    "a model_type of two networks": (
        config(architectures=[], model_type="Dream"),
        "model_type 'Dream' could be DreamModel or DreamForCausalLM",
    ),
    "stretched positions": (
        config(rope_scaling={"rope_type": "yarn", "factor": 4.0}), "sets rope_scaling to 'yarn'",
    ),
    "stretched positions, newer": (
        config(rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 500000.0}),
        "sets rope_parameters to 'linear'",
    ),
    "two thetas": (
        config(rope_theta=1e4, rope_parameters={"rope_type": "default", "rope_theta": 5e5}),
        "gives rope_theta as 10000.0 and, in rope_parameters, as 500000.0",
    ),
    # Tokenizers and special ids.
    "no tokenizer": (without("tokenizer.json"), "has no tokenizer.json"),
    "no tokenizer in it": (file("tokenizer.json", "{}"), "tokenizer.json cannot be read"),
    "more tokens than rows": (wider_tokenizer, "has ids up to 262, config.json gives the model"),
    "no mask token": (unmasked_tokenizer, "the tokenizer has no <|mdm_mask|>; remask needs"),
    "a mask id without a row": (
        config(mask_token_id=262), "config.json gives mask_token_id as 262; it must be an id below",
    ),
    "a mask id that ends": (config(mask_token_id=5), "gives 5 as mask_token_id, which is EOS too"),
    "a mask id that pads": (
        config(pad_token_id=1), "gives 1 as mask_token_id, which is pad_token_id too",
    ),
    "another mask token than the tokenizer's": (
        config(mask_token_id=77),
        "the mask token is 77 by config.json and 1 by the tokenizer (<|mdm_mask|>)",
    ),
    "another mask token than declared": (
        file("tokenizer_config.json", json.dumps({"mask_token": {"content": "a"}})),
        "the mask token is 1 by config.json and",
    ),
    "an eos id without a row": (config(eos_token_id=[0, 999]), "gives eos_token_id as [0, 999]"),
    "a declared token that is none": (
        all_of(
            config(eos_token_id=None),
            file("tokenizer_config.json", json.dumps({"eos_token": "</s>"})),
        ),
        "tokenizer_config.json gives eos_token as '</s>', which the tokenizer does not have",
    ),
    "no end at all": (
        config(eos_token_id=None, pad_token_id=None), "nor the tokenizer's files name an eos_token",
    ),
    "a generation_config.json of no kind": (
        file("generation_config.json", '"greedy"'), "generation_config.json holds str",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_foreign_checkpoint_is_one_sentence_that_names_the_cause(
    tmp_path: Path, name: str
) -> None:
    folder = write_checkpoint(tmp_path / "model", dtype=torch.float32)
    damage, cause = CASES[name]
    damage(folder)
    with pytest.raises(RemaskError) as caught:
        remask.load(folder, device="cpu", dtype="float32")
    sentence = str(caught.value)
    assert isinstance(caught.value, CheckpointError)
    assert cause in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert caught.value.__cause__ is None


def test_the_checkpoint_that_all_of_them_begin_with_loads(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "model", dtype=torch.float32)
    assert remask.load(folder, device="cpu").vocab_size == 262


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "model", dtype=torch.float32)
    with pytest.raises(CheckpointError, match=r"is a file; name the folder of the checkpoint\.$"):
        remask.load(folder / WEIGHTS)


LLADA = {
    "architectures": ["LLaDAModelLM"], "d_model": 8, "n_layers": 1, "n_heads": 2, "n_kv_heads": 1,
    "mlp_hidden_size": 8, "vocab_size": 20, "embedding_size": 20, "max_sequence_length": 16,
    "rope_theta": 100.0, "rms_norm_eps": 1e-5, "weight_tying": False, "include_bias": False,
}  # fmt: skip
QWEN = {
    "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
    "head_dim": 4, "intermediate_size": 8, "vocab_size": 20, "max_position_embeddings": 16,
    "rope_theta": 100.0, "rope_scaling": None, "rope_parameters": None, "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False, "hidden_act": "silu", "attention_bias": False,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "partial_rotary_factor": 1.0}
MOE = {**EXPERTS, "expert_intermediate_size": 4, "moe_layer_freq": [1]}
GROUPED = {
    **EXPERTS, "moe_intermediate_size": 4, "first_k_dense_replace": 1, "num_shared_experts": 1,
    "n_group": 2, "topk_group": 1, "use_bias": False,
}  # fmt: skip
NAMES = ("DreamModel", "A2DQwen3LMHeadModel", "ILLaDAForCausalLM")
CONFIGS: list[dict[str, Any]] = [
    LLADA,
    *({"architectures": [name], **QWEN} for name in NAMES),
    {"architectures": ["LLaDAMoEModelLM"], **QWEN, **MOE},
    {"architectures": ["LLaDA2MoeModelLM"], **QWEN, **GROUPED},
]
SCALARS = (
    st.none() | st.booleans() | st.integers(-2, 40) | st.floats() | st.text(max_size=8)
    | st.sampled_from([10**9, 10**12, 2**70, "default", "yarn"])
)  # fmt: skip
ROTARY = st.dictionaries(st.sampled_from(["rope_type", "type", "rope_theta", "factor"]), SCALARS)
VALUES = SCALARS | st.lists(SCALARS, max_size=2) | ROTARY


@given(
    config=st.sampled_from(CONFIGS).flatmap(
        lambda c: st.tuples(st.just(c), st.dictionaries(st.sampled_from(sorted(c)), VALUES))
    )
)
def test_whatever_config_json_holds_is_a_network_or_one_sentence(
    config: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    assert outline(config[0], Path("model")).vocab_size == 20
    sentence = "."
    try:
        outline({**config[0], **config[1]}, Path("model"))
    except CheckpointError as error:
        sentence = str(error)
    assert sentence.endswith(".")
    assert "\n" not in sentence
