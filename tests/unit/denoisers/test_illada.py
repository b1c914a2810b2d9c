"""iLLaDA against a plain re-implementation that shares no code with it, loaded from its files."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from plain import norm, turn
from safetensors.torch import save_file
from tokenizers import decoders, models, pre_tokenizers
from torch import Tensor

import remask
from remask.denoisers.illada import FAMILY
from remask.denoisers.native import NativeDenoiser
from remask.errors import CheckpointError
from remask.testing import check_denoiser
from remask.values import Canvas

WIDTH, LAYERS, HEADS, KV_HEADS, HEAD_DIM, INNER, VOCAB = 24, 2, 4, 2, 6, 40, 262
NAMES = ["<[begin▁of▁sentence]>", "<[PAD▁TOKEN]>", "<[end▁of▁sentence]>", "<[UNK]>", "<[4]>"]
NAMES += ["<[MASK]>"]
BEGIN, PAD, END, MASK = 0, 1, 2, 5
THETA, EPS = 100.0, 1e-5
CONFIG: dict[str, Any] = {
    "architectures": ["ILLaDAForCausalLM"],
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "intermediate_size": INNER,
    "vocab_size": VOCAB,
    "max_position_embeddings": 512,
    "rope_theta": THETA,
    "rms_norm_eps": EPS,
    "layer_norm_eps": None,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": True,
    "bos_token_id": BEGIN,
    "pad_token_id": PAD,
    "eos_token_id": END,
}
LAYER = {
    "input_layernorm.weight": (WIDTH,),
    "post_attention_layernorm.weight": (WIDTH,),
    "self_attn.q_proj.weight": (HEADS * HEAD_DIM, WIDTH),
    "self_attn.k_proj.weight": (KV_HEADS * HEAD_DIM, WIDTH),
    "self_attn.v_proj.weight": (KV_HEADS * HEAD_DIM, WIDTH),
    "self_attn.o_proj.weight": (WIDTH, HEADS * HEAD_DIM),
    "mlp.gate_proj.weight": (INNER, WIDTH),
    "mlp.up_proj.weight": (INNER, WIDTH),
    "mlp.down_proj.weight": (WIDTH, INNER),
}


def weights() -> dict[str, Tensor]:
    """Return tensors under the hub's names, every one large enough to show."""
    shapes = {f"model.layers.{i}.{n}": s for i in range(LAYERS) for n, s in LAYER.items()}
    shapes |= {"model.embed_tokens.weight": (VOCAB, WIDTH), "model.norm.weight": (WIDTH,)}
    generator = torch.Generator().manual_seed(0)
    return {
        name: torch.randn(shape, generator=generator) * 0.3 + name.endswith("norm.weight")
        for name, shape in shapes.items()
    }


def write(folder: Path, *, names: list[str] = NAMES, **changes: Any) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changes}))
    vocab = [*names, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    made = tokenizers.Tokenizer(models.BPE(vocab={n: i for i, n in enumerate(vocab)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(names)
    made.save(str(folder / "tokenizer.json"))
    save_file(weights(), folder / "model.safetensors")
    return folder


def load(folder: Path) -> NativeDenoiser:
    denoiser = remask.load(folder, device="cpu", dtype="float32")
    assert isinstance(denoiser, NativeDenoiser)
    return denoiser


def plain_forward(tokens: list[int]) -> Tensor:
    """Return the logits (L, V) of one row in float64, head by head, from the hub's tensors."""
    w = {name: tensor.double() for name, tensor in weights().items()}
    x = w["model.embed_tokens.weight"][tokens]  # (L, width)
    for i in range(LAYERS):
        layer = {n: w[f"model.layers.{i}.{n}"] for n in LAYER}
        y = norm(x, layer["input_layernorm.weight"], EPS)
        mixed = []
        for head in range(HEADS):
            q, k, v = (
                y @ layer[f"self_attn.{n}_proj.weight"][at * HEAD_DIM : (at + 1) * HEAD_DIM].T
                for n, at in (("q", head), ("k", head // 2), ("v", head // 2))
            )
            mixed.append((turn(q, THETA) @ turn(k, THETA).T / math.sqrt(HEAD_DIM)).softmax(-1) @ v)
        x = x + torch.cat(mixed, -1) @ layer["self_attn.o_proj.weight"].T
        y = norm(x, layer["post_attention_layernorm.weight"], EPS)
        gate, up = y @ layer["mlp.gate_proj.weight"].T, y @ layer["mlp.up_proj.weight"].T
        x = x + (gate * gate.sigmoid() * up) @ layer["mlp.down_proj.weight"].T
    return norm(x, w["model.norm.weight"], EPS) @ w["model.embed_tokens.weight"].T


def test_logits_equal_a_plain_reimplementation(tmp_path: Path) -> None:
    denoiser = load(write(tmp_path / "illada"))
    tokens = torch.tensor([[15, MASK, 17, MASK, 9, 99, 10, 11, MASK, 13, 12, 64], [*range(40, 52)]])
    canvas = Canvas(tokens=tokens, canvas=torch.ones_like(tokens, dtype=torch.bool), attend=None)
    found = denoiser.head(denoiser.hidden(canvas))
    for row, ids in zip(found, tokens.tolist(), strict=True):
        expected = plain_forward(ids)
        scale = max(1.0, expected.abs().max().item())
        assert (row - expected).abs().max().item() <= 1e-5 * scale


def test_a_loaded_checkpoint_keeps_the_contract(tmp_path: Path) -> None:
    check_denoiser(load(write(tmp_path / "illada")))


def test_a_rendered_prompt_is_a_turn_between_begin_and_end(tmp_path: Path) -> None:
    """As the template was inferred to be: BEGIN user, newline, prompt END BEGIN assistant."""
    tokenizer = load(write(tmp_path / "illada")).tokenizer
    assert tokenizer.render(" 2+2?\n") == [
        *(BEGIN, *tokenizer.encode("user\n2+2?"), END),
        *(BEGIN, *tokenizer.encode("assistant\n")),
    ]


def test_the_mask_token_is_the_fifth_where_the_configuration_is_silent(tmp_path: Path) -> None:
    tokenizer = load(write(tmp_path / "illada")).tokenizer
    assert (tokenizer.mask_id, tokenizer.eos_ids, tokenizer.pad_id) == (MASK, (END,), PAD)
    with pytest.raises(CheckpointError, match=r"is 4 by config\.json and 5 by the tokenizer"):
        load(write(tmp_path / "told", mask_token_id=4))


def test_a_tokenizer_without_the_tokens_of_the_template_is_refused(tmp_path: Path) -> None:
    other = ["<s>", "<pad>", "</s>", "<unk>", "<[4]>", "<[MASK]>"]
    with pytest.raises(CheckpointError, match=r"lacks <\[begin▁of▁sentence\]>, which we expected"):
        load(write(tmp_path / "illada", names=other))


def test_the_head_is_the_embedding_unless_the_configuration_says_otherwise() -> None:
    silent = {key: value for key, value in CONFIG.items() if key != "tie_word_embeddings"}
    assert FAMILY.build(silent).unembedding is None
    assert FAMILY.build({**CONFIG, "tie_word_embeddings": False}).unembedding is not None


def test_nothing_has_a_bias_and_no_head_is_normed() -> None:
    """4 + 2 + 2 heads of 6: 48 rows."""
    attention = FAMILY.build(CONFIG).blocks[0].attention
    assert {name: tuple(p.shape) for name, p in attention.named_parameters()} == {
        "qkv.weight": (48, 24),
        "out.weight": (24, 24),
    }
