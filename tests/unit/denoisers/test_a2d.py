"""A2D against a plain re-implementation that shares no code with it, loaded from its files."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from plain import norm, turn
from safetensors.torch import save_file
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from torch import Tensor

import remask
from remask.denoisers.a2d import A2D
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.qwen import QwenConfig
from remask.errors import CheckpointError
from remask.testing import check_denoiser
from remask.values import Canvas

# Heads are wider together than the stream, as in Qwen3-0.6B: 16 heads of 128 on a width of 1024.
WIDTH, LAYERS, HEADS, KV_HEADS, HEAD_DIM, INNER, VOCAB = 24, 2, 4, 2, 12, 40, 264
NAMES = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|mask|>"]
PAD, START, END, THINK, DONE, MASK = range(256, 262)
THETA = 100.0
CONFIG: dict[str, Any] = {
    "architectures": ["A2DQwen3LMHeadModel"],
    "model_type": "a2d-qwen3",
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "intermediate_size": INNER,
    "vocab_size": VOCAB,
    "max_position_embeddings": 40960,
    "rope_theta": THETA,
    "rms_norm_eps": 1e-6,
    "rope_scaling": None,
    "attention_bias": False,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "eos_token_id": END,
}
LAYER = {
    "input_layernorm.weight": (WIDTH,),
    "post_attention_layernorm.weight": (WIDTH,),
    "self_attn.q_proj.weight": (HEADS * HEAD_DIM, WIDTH),
    "self_attn.k_proj.weight": (KV_HEADS * HEAD_DIM, WIDTH),
    "self_attn.v_proj.weight": (KV_HEADS * HEAD_DIM, WIDTH),
    "self_attn.q_norm.weight": (HEAD_DIM,),
    "self_attn.k_norm.weight": (HEAD_DIM,),
    "self_attn.o_proj.weight": (WIDTH, HEADS * HEAD_DIM),
    "mlp.gate_proj.weight": (INNER, WIDTH),
    "mlp.up_proj.weight": (INNER, WIDTH),
    "mlp.down_proj.weight": (WIDTH, INNER),
}


def weights(*, tied: bool = True) -> dict[str, Tensor]:
    """Return tensors under the hub's names, every one large enough to show."""
    shapes = {f"model.layers.{i}.{n}": s for i in range(LAYERS) for n, s in LAYER.items()}
    shapes |= {"model.embed_tokens.weight": (VOCAB, WIDTH), "model.norm.weight": (WIDTH,)}
    shapes |= {} if tied else {"lm_head.weight": (VOCAB, WIDTH)}
    generator = torch.Generator().manual_seed(0)
    return {
        name: torch.randn(shape, generator=generator) * 0.3 + name.endswith("norm.weight")
        for name, shape in shapes.items()
    }


def backend() -> tokenizers.Tokenizer:
    """Return Qwen3's added tokens over single bytes; its thoughts are text, not special."""
    names = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *NAMES]
    made = tokenizers.Tokenizer(models.BPE(vocab={n: i for i, n in enumerate(names)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_tokens([AddedToken(n, special="think" not in n, normalized=False) for n in NAMES])
    return made


def write(folder: Path, *, tied: bool = True, **changes: Any) -> Path:
    folder.mkdir()
    config = {**CONFIG, "tie_word_embeddings": tied, **changes}
    (folder / "config.json").write_text(json.dumps(config))
    declared = {"pad_token": "<|endoftext|>", "eos_token": "<|im_end|>", "mask_token": "<|mask|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(declared))
    backend().save(str(folder / "tokenizer.json"))
    save_file(weights(tied=tied), folder / "model.safetensors")
    return folder


def load(folder: Path) -> NativeDenoiser:
    denoiser = remask.load(folder, device="cpu", dtype="float32")
    assert isinstance(denoiser, NativeDenoiser)
    return denoiser


def plain_forward(tokens: list[int], *, tied: bool = True) -> Tensor:
    """Return the logits (L, V) of one row in float64, head by head, from the hub's tensors."""
    w = {name: tensor.double() for name, tensor in weights(tied=tied).items()}
    x = w["model.embed_tokens.weight"][tokens]  # (L, width)
    for i in range(LAYERS):
        layer = {n: w[f"model.layers.{i}.{n}"] for n in LAYER}
        y = norm(x, layer["input_layernorm.weight"], 1e-6)
        mixed = []
        for head in range(HEADS):
            q, k, v = (
                y @ layer[f"self_attn.{n}_proj.weight"][at * HEAD_DIM : (at + 1) * HEAD_DIM].T
                for n, at in (("q", head), ("k", head // 2), ("v", head // 2))
            )
            q = turn(norm(q, layer["self_attn.q_norm.weight"], 1e-6), THETA)
            k = turn(norm(k, layer["self_attn.k_norm.weight"], 1e-6), THETA)
            mixed.append((q @ k.T / math.sqrt(HEAD_DIM)).softmax(-1) @ v)
        x = x + torch.cat(mixed, -1) @ layer["self_attn.o_proj.weight"].T
        y = norm(x, layer["post_attention_layernorm.weight"], 1e-6)
        gate, up = y @ layer["mlp.gate_proj.weight"].T, y @ layer["mlp.up_proj.weight"].T
        x = x + (gate * gate.sigmoid() * up) @ layer["mlp.down_proj.weight"].T
    head_weight = w["model.embed_tokens.weight"] if tied else w["lm_head.weight"]
    return norm(x, w["model.norm.weight"], 1e-6) @ head_weight.T


def logits(denoiser: NativeDenoiser, tokens: Tensor, attend: Tensor | None = None) -> Tensor:
    canvas = Canvas(tokens=tokens, canvas=torch.ones_like(tokens, dtype=torch.bool), attend=attend)
    return denoiser.head(denoiser.hidden(canvas))


@pytest.mark.parametrize("tied", [True, False])
def test_logits_equal_a_plain_reimplementation(tmp_path: Path, tied: bool) -> None:
    denoiser = load(write(tmp_path / "a2d", tied=tied))
    tokens = torch.tensor([[5, MASK, 7, MASK, 9, 99, 0, 1, MASK, 3, 2, 64], [*range(40, 52)]])
    found = logits(denoiser, tokens)
    for row, ids in zip(found, tokens.tolist(), strict=True):
        expected = plain_forward(ids, tied=tied)
        scale = max(1.0, expected.abs().max().item())
        assert (row - expected).abs().max().item() <= 1e-5 * scale


def test_a_padded_row_equals_the_plain_forward_of_its_real_tokens(tmp_path: Path) -> None:
    tokens = torch.tensor([[5, MASK, 7, PAD, PAD, PAD], [9, 8, MASK, 6, 5, 4]])
    attend = torch.tensor([[True] * 3 + [False] * 3, [True] * 6])
    found = logits(load(write(tmp_path / "a2d")), tokens, attend)[0, :3]
    expected = plain_forward([5, MASK, 7])
    assert (found - expected).abs().max().item() <= 1e-5 * expected.abs().max().item()


def test_a_loaded_checkpoint_keeps_the_contract(tmp_path: Path) -> None:
    check_denoiser(load(write(tmp_path / "a2d")))


def test_a_rendered_prompt_is_chatml_with_an_empty_thought(tmp_path: Path) -> None:
    tokenizer = load(write(tmp_path / "a2d")).tokenizer
    assert tokenizer.render(" 2+2?\n") == [
        *(START, *tokenizer.encode("user\n 2+2?\n"), END, *tokenizer.encode("\n")),
        *(START, *tokenizer.encode("assistant\n")),
        *(THINK, *tokenizer.encode("\n\n"), DONE, *tokenizer.encode("\n\n")),
    ]


def test_the_mask_token_is_found_in_the_tokenizer(tmp_path: Path) -> None:
    assert load(write(tmp_path / "a2d")).tokenizer.mask_id == MASK


def test_an_eos_that_ends_turns_leaves_the_tail_to_the_padding(tmp_path: Path) -> None:
    """The configuration has <|im_end|> as EOS; training filled rows with <|endoftext|>."""
    tokenizer = load(write(tmp_path / "a2d")).tokenizer
    assert (tokenizer.eos_ids, tokenizer.pad_id) == ((PAD, END), PAD)
    assert tokenizer.eos_id == PAD


def test_a_checkpoint_without_any_mask_token_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "a2d")
    text = (folder / "tokenizer.json").read_text().replace("<|mask|>", "<|other|>")
    (folder / "tokenizer.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"gives mask_token as '<\|mask\|>', which the token"):
        load(folder)
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(CheckpointError, match=r"as None and the tokenizer has no <\|mask\|>"):
        load(folder)


def test_the_heads_of_q_and_k_are_normed_and_nothing_has_a_bias() -> None:
    """4 + 2 + 2 heads of 12: 96 rows; the heads together are 48 wide, the stream 24."""
    attention = A2D(QwenConfig.read(CONFIG)).blocks[0].attention
    assert {name: tuple(p.shape) for name, p in attention.named_parameters()} == {
        "qkv.weight": (96, 24),
        "qk_norm.q.weight": (12,),
        "qk_norm.k.weight": (12,),
        "out.weight": (24, 48),
    }


# What `remask adapt` writes beside the ancestor's keys


def test_a_shifted_checkpoint_predicts_from_the_row_before(tmp_path: Path) -> None:
    tokens = torch.tensor([[5, MASK, 7, MASK, 9, 99, 0, 1]])
    plain = logits(load(write(tmp_path / "plain")), tokens)
    moved = logits(load(write(tmp_path / "shifted", shifted=True)), tokens)
    assert torch.allclose(moved[:, 1:], plain[:, :-1], atol=1e-5)
    with pytest.raises(CheckpointError, match="gives shifted as 'yes'; it must be true or false"):
        load(write(tmp_path / "wrong", shifted="yes"))


def test_a_checkpoint_may_bring_a_chat_of_its_own(tmp_path: Path) -> None:
    chat = {
        "template": "<|im_start|>{prompt}<|im_end|>", "system": "<|im_start|>{system}",
        "primer": "<|im_end|>", "trims": True,
    }  # fmt: skip
    tokenizer = load(write(tmp_path / "own", chat=chat)).tokenizer
    assert tokenizer.system == "<|im_start|>{system}"
    assert tokenizer.render(" A ") == [START, *tokenizer.encode("A"), END]
    assert (tokenizer.primer, tokenizer.trims) == ("<|im_end|>", True)
    usual = load(write(tmp_path / "usual", chat={"template": "Q: {prompt}\nA:"})).tokenizer
    assert (usual.template, usual.system) == ("Q: {prompt}\nA:", "")  # not the family's
    assert (usual.primer, usual.trims) == ("", False)


@pytest.mark.parametrize(
    ("chat", "message"),
    [
        ("Q: {prompt}", r"gives chat as 'Q: \{prompt\}'; it must be an object with a template"),
        ({"primer": ""}, "it must be an object with a template"),
        ({"template": "{prompt}", "trims": "no"}, "it must be an object with a template"),
        ({"template": "{prompt}", "roles": ""}, "it must be an object with a template"),
        ({"template": "Q:"}, r"gives chat a template 'Q:'; it must hold \{prompt\} once"),
        ({"template": "<|start|>{prompt}"}, r"lacks <\|start\|> of the chat template"),
    ],
)
def test_a_chat_that_cannot_be_is_refused(tmp_path: Path, chat: Any, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        load(write(tmp_path / "a2d", chat=chat))
