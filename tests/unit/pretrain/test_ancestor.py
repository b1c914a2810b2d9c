"""Folders of transformers and GGUF files: the same logits as the model they were written from."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import ancestors
import gguf
import numpy as np
import pytest
import torch
from gguf.quants import dequantize, quantize
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from remask.denoisers.special_ids import MASK_TOKEN
from remask.errors import CheckpointError, MissingExtra, SettingsError
from remask.pretrain.ancestor import read_ancestor
from remask.pretrain.chat import read_chat
from remask.pretrain.gguf_file import unpermuted
from remask.pretrain.mask_token import with_mask_token

TOKENS = torch.tensor([[5, 70, 8, 9, 99, 101, 64, 30, 31, 32], [*range(40, 50)]])
SHAPES = ["llama", "qwen2", "qwen3"]


@torch.no_grad()
def causal_logits(source: Path) -> Tensor:
    """Return the logits of what was read under a causal mask, which are blocks of one token."""
    network = read_ancestor(str(source)).network(shifted=False)
    network.block_size = 1
    return network.project(network(TOKENS))


@torch.no_grad()
def reference_logits(kind: str, tied: bool = True) -> Tensor:
    logits: Tensor = ancestors.reference(kind, tied)(TOKENS).logits
    return logits


def assert_close(ours: Tensor, theirs: Tensor, share: float = 1e-5) -> None:
    assert (ours - theirs).abs().max() <= share * theirs.abs().max()


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", SHAPES)
def test_a_folder_of_transformers_gives_its_logits(kind: str, tied: bool, tmp_path: Path) -> None:
    ancestors.write_hub(tmp_path, kind, tied=tied)
    assert_close(causal_logits(tmp_path), reference_logits(kind, tied))


def test_weights_in_several_files_are_read(tmp_path: Path) -> None:
    ancestors.write_hub(tmp_path, "llama", max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert_close(causal_logits(tmp_path), reference_logits("llama"))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", SHAPES)
def test_a_gguf_file_gives_the_logits_of_its_source(kind: str, tied: bool, tmp_path: Path) -> None:
    path = ancestors.write_gguf(tmp_path / "model.gguf", kind, tied=tied)
    assert_close(causal_logits(path), reference_logits(kind, tied))


def test_quantised_weights_are_those_of_ggufs_own_functions(tmp_path: Path) -> None:
    """Q8_0: a scale of 16 bits for 32 numbers of 8."""
    path = ancestors.write_gguf(tmp_path / "model.gguf", "llama", quantised=True)
    network = read_ancestor(str(path)).network(shifted=True)
    kind = gguf.GGMLQuantizationType.Q8_0
    embedding = ancestors.reference("llama").state_dict()["model.embed_tokens.weight"].numpy()
    expected = dequantize(quantize(embedding, kind), kind)
    assert np.array_equal(network.embedding.weight.detach().numpy(), expected)
    assert not np.array_equal(expected, embedding)
    assert_close(causal_logits(path), reference_logits("llama"), share=0.05)


def test_rows_of_q_are_unpermuted_by_hand() -> None:
    """One head of four: llama.cpp has 0, 2, 1, 3, a pair for each angle; we have two halves."""
    rows = np.array([[0.0], [2.0], [1.0], [3.0]], np.float32)
    assert unpermuted(rows, 1).ravel().tolist() == [0, 1, 2, 3]
    assert np.array_equal(ancestors.permuted(unpermuted(rows, 1), 1), rows)


def test_folder_and_file_are_the_same_model(llama: Path, tmp_path: Path) -> None:
    path = ancestors.write_gguf(tmp_path / "model.gguf", "llama")
    one, other = read_ancestor(str(llama)), read_ancestor(str(path))
    assert one.chat == other.chat
    assert one.chat.template == "<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
    assert one.chat.system == "<|im_start|>system\n{system}<|im_end|>\n"
    assert (one.chat.primer, one.chat.trims) == ("", False)
    assert one.special_tokens.first("eos") == other.special_tokens.first("eos") == (ancestors.END,)
    networks = [a.network(shifted=True) for a in (one, other)]
    for name, weight in networks[0].state_dict().items():
        assert torch.equal(weight, networks[1].state_dict()[name]), name


@given(st.text() | st.text(alphabet="the 012in\n'<|im_end|>"))
def test_the_tokenizer_of_a_file_cuts_text_as_the_source_does(text: str) -> None:
    assert rebuilt("smollm").encode(text).ids == ancestors.backend().encode(text).ids


def rebuilt(pieces: str) -> Any:
    from remask.pretrain.gguf_tokenizer import build_tokenizer

    kinds = [3] * len(ancestors.SPECIAL) + [1] * (len(ancestors.WORDS) - len(ancestors.SPECIAL))
    return build_tokenizer(
        {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": pieces,
            "tokenizer.ggml.tokens": ancestors.WORDS,
            "tokenizer.ggml.token_type": kinds,
            "tokenizer.ggml.merges": [" ".join(pair) for pair in ancestors.MERGES],
        },
        "a file",
    )


@pytest.mark.parametrize(
    ("pieces", "tokens"),
    [
        ("smollm", ["Ġ", "1", "2", "3", "4", "Ġthe", "in"]),
        ("qwen2", ["Ġ", "1", "2", "3", "4", "Ġthe", "in"]),
        ("llama-bpe", ["Ġ", "12", "3", "4", "Ġthe", "in"]),  # up to three digits together
        ("gpt-2", ["Ġ", "12", "3", "4", "Ġthe", "in"]),  # any number of them
    ],
)
def test_each_way_to_cut_text_by_hand(pieces: str, tokens: list[str]) -> None:
    """12 is a merge: it shows where digits stay together."""
    assert rebuilt(pieces).encode(" 1234 thein").tokens == tokens


# What is refused


def test_other_architectures_are_refused(llama: Path, tmp_path: Path) -> None:
    path = ancestors.write_gguf(tmp_path / "model.gguf", "llama", architecture="gemma2")
    with pytest.raises(CheckpointError, match=r"declares the architecture 'gemma2'; known are"):
        read_ancestor(str(path))
    folder = shutil.copytree(llama, tmp_path / "folder")
    config = json.loads((folder / "config.json").read_text())
    config["architectures"] = ["GPT2LMHeadModel"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="'GPT2LMHeadModel'; what can be adapted is Llama"):
        read_ancestor(str(folder))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer": "llama"}, r"a tokenizer of the kind 'llama', .* known are gpt2 with smollm"),
        ({"pieces": "tekken"}, r"its text cut as 'tekken'; known are gpt2 with smollm"),
        ({"without": ["output_norm.weight"]}, r"lacks the tensor model\.norm\.weight"),
        (
            {"beside": {"blk.0.ffn_gate_inp.weight": np.zeros((2, 32), np.float32)}},
            r"holds the tensor blk\.0\.ffn_gate_inp\.weight, which no part",
        ),
        (
            {"beside": {"rope_freqs.weight": np.ones(4, np.float32)}},
            r"model\.gguf holds rope_freqs\.weight; stretched rotary embeddings",
        ),
        (
            {"llama.rope.scaling.type": "linear"},
            r"\.rope\.scaling\.type as 'linear'; only none is",
        ),
        ({"llama.rope.scaling.factor": 2.0}, r"llama\.rope\.scaling\.factor as 2\.0; only 1 is"),
        ({"llama.rope.scale_linear": 2.0}, r"llama\.rope\.scale_linear as 2\.0; only 1 is"),
        ({"llama.rope.dimension_count": 4}, r"llama\.rope\.dimension_count as 4; only 8 is"),
        ({"llama.attention.sliding_window": 8}, r"sliding_window as 8; sliding windows are not"),
        ({"llama.attention.value_length": 4}, r"value_length as 4; keys and values must both be 8"),
        ({"llama.expert_count": 8}, r"llama\.expert_count as 8; models with experts"),
        ({"split.count": 2}, r"split\.count as 2; it is one file of several; join them"),
        ({"llama.attention.head_count": 0}, r"head_count as 0; it must be a whole number above 0"),
        ({"llama.attention.head_count_kv": 3}, r"attention\.head_count 4, head_count_kv 3 and a"),
        ({"llama.attention.head_count_kv": [2, 2]}, r"head_count_kv as \[2, 2\]; it must be a"),
        ({"llama.context_length": None}, r"llama\.context_length as None; it must be a whole"),
        ({"llama.attention.head_count_kv": 4}, r"has shape \(16, 32\), not \(32, 32\); download"),
        ({"llama.block_count": None}, r"llama\.block_count as None; it must be a whole number"),
        ({"tokenizer.ggml.eos_token_id": 9999}, r"eos_token_id as 9999; it must be an id below"),
        ({"tokenizer.ggml.bos_token_id": 9999}, r"bos_token_id as 9999; it must be an id below"),
        (
            {"tokenizer.ggml.eos_token_id": None, "tokenizer.ggml.padding_token_id": None},
            r"model\.gguf lacks tokenizer\.ggml\.eos_token_id",
        ),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    facts = {name: changes.pop(name) for name in [*changes] if "." in name}
    path = ancestors.write_gguf(tmp_path / "model.gguf", "llama", facts=facts, **changes)
    with pytest.raises(CheckpointError, match=message) as refusal:
        read_ancestor(str(path)).network(shifted=True)
    assert "config.json" not in str(refusal.value)


def test_what_a_file_may_leave_out_or_say_of_the_usual(tmp_path: Path) -> None:
    """As many heads for keys as there are; windows as wide as the context; factors of one."""
    kind = "qwen2"
    facts = {
        f"{kind}.attention.sliding_window": 4096, f"{kind}.rope.dimension_count": 8,
        f"{kind}.rope.scaling.type": "none", f"{kind}.rope.scale_linear": 1.0,
        f"{kind}.expert_count": 0, "split.count": 1,
    }  # fmt: skip
    plain = read_ancestor(str(ancestors.write_gguf(tmp_path / "plain.gguf", kind)))
    path = ancestors.write_gguf(tmp_path / "model.gguf", kind, facts=facts)
    assert read_ancestor(str(path)).config == plain.config
    path = ancestors.write_gguf(
        tmp_path / "heads.gguf", kind, facts={f"{kind}.attention.head_count_kv": None}
    )
    config = read_ancestor(str(path)).config
    assert config["num_key_value_heads"] == config["num_attention_heads"] == 4


def test_a_chat_template_that_is_not_utf_8_is_said(llama: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(llama, tmp_path / "folder")
    (folder / "chat_template.jinja").write_bytes(b"\xff\xf0")
    with pytest.raises(CheckpointError, match=r"chat_template\.jinja is not valid UTF-8"):
        read_ancestor(str(folder))


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + b"\xff" * 100)
    with pytest.raises(CheckpointError, match=r"model\.gguf cannot be read as GGUF"):
        read_ancestor(str(path))
    with pytest.raises(CheckpointError, match=r"absent\.gguf is no file"):
        read_ancestor(str(tmp_path / "absent.gguf"))


def test_without_the_package_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MissingExtra, match=r"gguf is not installed; pip install 'remask\[gguf\]'"):
        read_ancestor(str(tmp_path / "model.gguf"))


# The chat


def test_a_template_that_trims_and_primes_is_understood() -> None:
    """Llama 3 trims what is said; Qwen3 primes the reply it asks for with an empty thought."""
    source = (
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}{{ eos_token }}"
        "{% endfor %}{% if add_generation_prompt %}[assistant]"
        "{% if enable_thinking is false %}<think></think>{% endif %}{% endif %}"
    )
    chat = read_chat(source, bos="<s>", eos="</s>", where="it")
    assert chat.template == "<s>[user]{prompt}</s>[assistant]<think></think>"
    assert chat.primer == "<think></think>"
    assert chat.trims
    assert chat.system == ""  # no token opens a turn, so nothing tells where the user's begins


def test_a_system_turn_takes_the_place_of_the_one_that_a_template_inserts() -> None:
    """SmolLM2's own words where nobody says others; a template may also refuse the role."""
    source = (
        "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nBe SmolLM.<|im_end|>\n"
        "{% endif %}" + ancestors.TEMPLATE
    )
    chat = read_chat(source, bos="", eos="", where="it")
    assert chat.template.startswith("<|im_start|>system\nBe SmolLM.<|im_end|>\n<|im_start|>user\n")
    assert chat.system == "<|im_start|>system\n{system}<|im_end|>\n"
    refusing = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no') }}{% endif %}"
    assert read_chat(refusing + source, bos="", eos="", where="it").system == ""


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{% for m in messages %}", "end of template"),
        ("hello", "does not say the prompt once"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused(source: str, reason: str) -> None:
    with pytest.raises(CheckpointError, match=rf"(?i)chat template of it cannot .*{reason}"):
        read_chat(source, bos="", eos="", where="it")


def test_without_a_template_the_words_of_the_tokenizer_decide(llama: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(llama, tmp_path / "folder")
    (folder / "chat_template.jinja").unlink()
    assert read_ancestor(str(folder)).chat.template.startswith("<|im_start|>user\n{prompt}")
    assert read_ancestor(str(folder), "Q: {prompt} A:").chat.template == "Q: {prompt} A:"
    written = (folder / "tokenizer.json").read_text().replace("im_start", "im_begin")
    (folder / "tokenizer.json").write_text(written)
    declared = json.loads((folder / "tokenizer_config.json").read_text())
    declared["bos_token"] = "<|im_begin|>"
    (folder / "tokenizer_config.json").write_text(json.dumps(declared))
    assert read_ancestor(str(folder)).chat.template == "Question: {prompt}\nAnswer:"


# The mask token


def masked(num_ids: int = len(ancestors.WORDS), wanted: str = "", **more: Any) -> Any:
    return with_mask_token(
        ancestors.backend(), num_ids=num_ids, template="<|im_start|>{prompt}",
        ends=frozenset({ancestors.PAD, ancestors.END}), wanted=wanted, **more,
    )  # fmt: skip


def test_an_unused_id_comes_before_a_reserved_token() -> None:
    """Qwen has more rows than tokens: the first behind the vocabulary masks, all others stay."""
    backend = masked(num_ids=len(ancestors.WORDS) + 8)
    assert backend.token_to_id(MASK_TOKEN) == len(ancestors.WORDS)
    assert backend.token_to_id("<reponame>") == ancestors.REPO
    assert backend.encode("a<|mask|>the").tokens == ["a", "<|mask|>", "t", "he"]


def test_a_reserved_token_takes_the_name() -> None:
    backend = masked()
    assert backend.token_to_id(MASK_TOKEN) == ancestors.REPO
    assert backend.token_to_id("<reponame>") is None
    assert backend.get_vocab_size() == len(ancestors.WORDS)
    assert backend.get_added_tokens_decoder()[ancestors.REPO].special
    assert masked(wanted="<file_sep>").token_to_id(MASK_TOKEN) == ancestors.FILE


def test_a_tokenizer_that_has_one_keeps_it() -> None:
    backend = masked()
    again = with_mask_token(backend, num_ids=10**6, template="", ends=frozenset(), wanted="")
    assert again.to_str() == backend.to_str()


def test_a_token_that_is_not_free_is_refused() -> None:
    for wanted in ("<|im_end|>", "<|im_start|>", "the", "<nothing>"):
        with pytest.raises(SettingsError, match=r"is no special token that is free; there are <re"):
            masked(wanted=wanted)
    backend = ancestors.backend()
    with pytest.raises(SettingsError, match=r"no unused id below \d+ and no reserved token"):
        with_mask_token(
            backend, num_ids=len(ancestors.WORDS), template="".join(ancestors.SPECIAL),
            ends=frozenset(), wanted="",
        )  # fmt: skip
