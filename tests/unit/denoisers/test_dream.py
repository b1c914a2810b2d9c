"""Dream against a plain re-implementation that shares no code with it, loaded from its files."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from plain import norm, turn
from safetensors.torch import save_file
from tokenizers import pre_tokenizers
from torch import Tensor

import remask
from remask.denoisers.dream import Dream
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.qwen import QwenConfig
from remask.errors import CheckpointError
from remask.testing import check_denoiser
from remask.values import Canvas

WIDTH, LAYERS, HEADS, KV_HEADS, INNER, VOCAB = 32, 2, 4, 2, 48, 264
HEAD_DIM = WIDTH // HEADS
ADDED = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|beginoftext|>", "<|mask|>"]
EOS, START, END, BEGIN, MASK = range(257, 262)  # after 256 bytes and one merged token
CONFIG: dict[str, Any] = {
    "architectures": ["DreamModel"],
    "model_type": "Dream",
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "intermediate_size": INNER,
    "vocab_size": VOCAB,
    "max_position_embeddings": 131072,
    "rope_theta": 100.0,
    "rms_norm_eps": 1e-6,
    "rope_scaling": None,
    "hidden_act": "silu",
    "use_sliding_window": False,
    "sliding_window": 131072,
    "tie_word_embeddings": False,
    "mask_token_id": MASK,
    "eos_token_id": EOS,
    "pad_token_id": EOS,
}
LAYER = {
    "input_layernorm.weight": (WIDTH,),
    "post_attention_layernorm.weight": (WIDTH,),
    "self_attn.q_proj.weight": (HEADS * HEAD_DIM, WIDTH),
    "self_attn.q_proj.bias": (HEADS * HEAD_DIM,),
    "self_attn.k_proj.weight": (KV_HEADS * HEAD_DIM, WIDTH),
    "self_attn.k_proj.bias": (KV_HEADS * HEAD_DIM,),
    "self_attn.v_proj.weight": (KV_HEADS * HEAD_DIM, WIDTH),
    "self_attn.v_proj.bias": (KV_HEADS * HEAD_DIM,),
    "self_attn.o_proj.weight": (WIDTH, HEADS * HEAD_DIM),
    "mlp.gate_proj.weight": (INNER, WIDTH),
    "mlp.up_proj.weight": (INNER, WIDTH),
    "mlp.down_proj.weight": (WIDTH, INNER),
}


def weights(seed: int = 0) -> dict[str, Tensor]:
    """Return tensors under the hub's names, every one large enough to show."""
    shapes = {f"model.layers.{i}.{n}": s for i in range(LAYERS) for n, s in LAYER.items()}
    shapes |= {"model.embed_tokens.weight": (VOCAB, WIDTH), "model.norm.weight": (WIDTH,)}
    shapes |= {"lm_head.weight": (VOCAB, WIDTH)}
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(shape, generator=generator) * 0.3 + name.endswith("norm.weight")
        for name, shape in shapes.items()
    }


def write(folder: Path, **changes: Any) -> Path:
    """Write a checkpoint as the hub has it: the tokenizer is vocab.json with merges.txt."""
    names = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "he"]
    added = {str(EOS + i): {"content": n, "special": True} for i, n in enumerate(ADDED)}
    files = {
        "config.json": {**CONFIG, **changes},
        "vocab.json": {name: i for i, name in enumerate(names)},
        "tokenizer_config.json": {"added_tokens_decoder": added, "pad_token": "<|endoftext|>"},
    }
    folder.mkdir()
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\nh e\n", encoding="utf-8")
    save_file(weights(), folder / "model.safetensors")
    return folder


@pytest.fixture
def denoiser(tmp_path: Path) -> NativeDenoiser:
    loaded = remask.load(write(tmp_path / "dream"), device="cpu", dtype="float32")
    assert isinstance(loaded, NativeDenoiser)
    return loaded


def plain_forward(tokens: list[int]) -> Tensor:
    """Return the checkpoint's own logits (L, V), row i - 1 for token i, head by head in float64."""
    w = {name: tensor.double() for name, tensor in weights().items()}
    x = w["model.embed_tokens.weight"][tokens]  # (L, width)
    for i in range(LAYERS):
        layer = {n: w[f"model.layers.{i}.{n}"] for n in LAYER}
        y = norm(x, layer["input_layernorm.weight"], 1e-6)
        mixed = []
        for head in range(HEADS):
            rows = {}
            for n, at in (("q", head), ("k", head // 2), ("v", head // 2)):
                part = slice(at * HEAD_DIM, (at + 1) * HEAD_DIM)
                weight, bias = (layer[f"self_attn.{n}_proj.{kind}"] for kind in ("weight", "bias"))
                rows[n] = y @ weight[part].T + bias[part]
            q, k = turn(rows["q"], 100.0), turn(rows["k"], 100.0)
            mixed.append((q @ k.T / math.sqrt(HEAD_DIM)).softmax(-1) @ rows["v"])
        x = x + torch.cat(mixed, -1) @ layer["self_attn.o_proj.weight"].T
        y = norm(x, layer["post_attention_layernorm.weight"], 1e-6)
        gate, up = y @ layer["mlp.gate_proj.weight"].T, y @ layer["mlp.up_proj.weight"].T
        x = x + (gate * gate.sigmoid() * up) @ layer["mlp.down_proj.weight"].T
    return norm(x, w["model.norm.weight"], 1e-6) @ w["lm_head.weight"].T


def logits(denoiser: NativeDenoiser, tokens: Tensor, attend: Tensor | None = None) -> Tensor:
    canvas = Canvas(tokens=tokens, canvas=torch.ones_like(tokens, dtype=torch.bool), attend=attend)
    return denoiser.head(denoiser.hidden(canvas))


def test_row_i_predicts_token_i_where_the_checkpoint_has_it_in_row_i_minus_1(
    denoiser: NativeDenoiser,
) -> None:
    tokens = torch.tensor([[5, MASK, 7, MASK, 9, 99, 0, 1, MASK, 3, 2, 64], [*range(40, 52)]])
    found = logits(denoiser, tokens)
    for row, ids in zip(found, tokens.tolist(), strict=True):
        expected = plain_forward(ids)
        scale = max(1.0, expected.abs().max().item())
        assert (row[1:] - expected[:-1]).abs().max().item() <= 1e-5 * scale
        assert (row[1:] - expected[1:]).abs().max().item() > 0.1


def test_the_first_row_repeats_the_second(denoiser: NativeDenoiser) -> None:
    found = logits(denoiser, torch.tensor([[5, MASK, 7]]))
    assert torch.equal(found[0, 0], found[0, 1])
    assert not torch.equal(found[0, 1], found[0, 2])


def test_a_padded_row_equals_the_plain_forward_of_its_real_tokens(denoiser: NativeDenoiser) -> None:
    tokens = torch.tensor([[5, MASK, 7, EOS, EOS, EOS], [9, 8, MASK, 6, 5, 4]])
    attend = torch.tensor([[True] * 3 + [False] * 3, [True] * 6])
    expected = plain_forward([5, MASK, 7])
    found = logits(denoiser, tokens, attend)[0, 1:3]
    assert (found - expected[:-1]).abs().max().item() <= 1e-5 * expected.abs().max().item()


def test_a_loaded_checkpoint_keeps_the_contract(denoiser: NativeDenoiser) -> None:
    check_denoiser(denoiser)


def test_the_trained_context_is_2048_whatever_the_configuration_says(tmp_path: Path) -> None:
    long = remask.load(write(tmp_path / "long"), device="cpu", dtype="float32")
    short = write(tmp_path / "short", max_position_embeddings=64)
    assert long.max_length == 2048
    assert remask.load(short, device="cpu", dtype="float32").max_length == 64


def test_a_rendered_prompt_is_chatml_with_the_default_system_turn(denoiser: NativeDenoiser) -> None:
    """Two bytes are merged: "he"; "help" begins with it, and so does the end of "the"."""
    tokenizer = denoiser.tokenizer
    system = tokenizer.encode("system\nYou are a helpful assistant.")
    user = tokenizer.encode("user\n Is the sky blue?\n")
    assert tokenizer.render(" Is the sky blue?\n") == [
        *(START, *system, END, *tokenizer.encode("\n")),
        *(START, *user, END, *tokenizer.encode("\n")),
        *(START, *tokenizer.encode("assistant\n")),
    ]
    he = tokenizer.backend.token_to_id("he")
    assert (system.count(he), user.count(he)) == (1, 1)
    assert len(user) == len("user\n Is the sky blue?\n") - 1


def test_turns_end_with_im_end_and_canvases_with_endoftext(denoiser: NativeDenoiser) -> None:
    tokenizer = denoiser.tokenizer
    assert (tokenizer.mask_id, tokenizer.eos_ids, tokenizer.pad_id) == (MASK, (EOS, END), EOS)
    assert tokenizer.special_ids == {EOS, START, END, BEGIN, MASK}


def test_heads_that_cannot_be_shared_or_rotated_are_refused() -> None:
    for changes in ({"num_key_value_heads": 3}, {"head_dim": 7}):
        with pytest.raises(CheckpointError, match="kv heads must divide the heads evenly"):
            QwenConfig.read({**CONFIG, **changes})


def test_q_k_and_v_have_one_bias_in_one_matrix() -> None:
    """4 + 2 + 2 heads of 8: 64 rows."""
    attention = Dream(QwenConfig.read(CONFIG)).blocks[0].attention
    shapes = {name: tuple(p.shape) for name, p in attention.named_parameters()}
    assert shapes == {"qkv.weight": (64, 32), "qkv.bias": (64,), "out.weight": (32, 32)}


def test_rotary_tables_are_built_in_float32_and_cast_to_the_weights() -> None:
    """Position 63, first pair: cos(63) = 0.98590; the nearest bfloat16 is 0.98438 (63 / 64).

    An angle rounded first would be 63 as well, but 0.1 * 63 = 6.3 would become 6.3125.
    """
    model = Dream(QwenConfig.read({**CONFIG, "rope_theta": 10.0**4})).bfloat16()
    cos, sin = model.rotary(64)
    assert (cos.dtype, cos.shape, sin.shape) == (torch.bfloat16, (64, 1, 4), (64, 1, 4))
    expected = torch.tensor([math.cos(63 * 10.0**-k) for k in range(4)]).bfloat16()
    assert torch.equal(cos[63, 0], expected)
    assert cos[63, 0, 0].item() == 63 / 64


def test_a_missing_bias_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "dream")
    kept = weights()
    del kept["model.layers.1.self_attn.k_proj.bias"]
    save_file(kept, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"lacks the tensor .*1\.self_attn\.k_proj\.bias;"):
        remask.load(folder, device="cpu", dtype="float32")
