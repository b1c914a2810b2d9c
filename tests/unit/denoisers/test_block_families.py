"""SDAR, DreamReasoner, Fast-dLLM v2 and the A2D models, loaded from files like their authors'.

That their networks compute what the references do is checked in tests/reference; here it is what
their files say, what only their names say, and that they keep the contract.
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from torch import Tensor
from wrapped import Twice

import remask
from remask.consistency.roundtrips import round_trips
from remask.consistency.settings import ConsistencySettings
from remask.denoisers import a2d, dreamreasoner, fast_dllm, sdar
from remask.denoisers.catalog import CHECKPOINTS, default_preset
from remask.denoisers.load import outline
from remask.denoisers.native import Family, NativeDenoiser, Network, stacked
from remask.denoisers.wrap import Suppressed
from remask.errors import CheckpointError, InputError
from remask.sampling.sampler import sample
from remask.sampling.settings import SamplerSettings
from remask.testing import check_denoiser

SHAPE: dict[str, Any] = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 24, "vocab_size": 272, "max_position_embeddings": 512,
    "rope_theta": 1000000.0, "rms_norm_eps": 1e-6, "hidden_act": "silu", "rope_scaling": None,
    "attention_dropout": 0.0, "initializer_range": 0.02, "use_cache": False,
}  # fmt: skip
QWEN: dict[str, Any] = {"use_sliding_window": False, "sliding_window": None}
QWEN3: dict[str, Any] = {**SHAPE, **QWEN, "head_dim": 8, "attention_bias": False}
MOE: dict[str, Any] = {
    "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 12,
    "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [],
}  # fmt: skip
CHATML = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
LLAMA = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>"]
PAD, START, END = 256, 257, 258  # of ChatML, behind the 256 bytes


@dataclass(frozen=True, kw_only=True)
class Model:
    """A small checkpoint as its authors write it."""

    family: Family
    config: dict[str, Any]
    mask: str
    declared: dict[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = tuple(CHATML)
    block: int | None = None
    folder: str = "model"
    bare: bool = False  # vocab.json and merges.txt, no tokenizer.json


SAID = {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
ENDED = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
MODELS = {
    "SDAR": Model(
        family=sdar.FAMILY,
        config={**QWEN3, "model_type": "sdar", "eos_token_id": PAD, "tie_word_embeddings": False},
        mask="<|MASK|>",
        declared={**SAID, "mask_token": "<|MASK|>"},
        block=4,
    ),
    "SDAR-MoE": Model(
        family=sdar.MOE_FAMILY,
        config={**QWEN3, **MOE, "model_type": "sdar_moe", "eos_token_id": PAD},
        mask="<|MASK|>",
        declared={**SAID, "mask_token": "<|MASK|>"},
        block=4,
    ),
    "DreamReasoner": Model(
        family=dreamreasoner.FAMILY,
        config={
            **QWEN3,
            "model_type": "Dream",
            "head_dim": None,
            "eos_token_id": PAD,
            "block_size": 32,
            "mask_token_id": 261,
        },
        mask="<|mask|>",
        declared=SAID,
        block=32,
    ),
    "Fast-dLLM": Model(
        family=fast_dllm.FAMILY,
        config={
            **SHAPE,
            **QWEN,
            "model_type": "Fast_dLLM_Qwen",
            "bd_size": 32,
            "eos_token_id": END,
            "pad_token_id": END,
            "tie_word_embeddings": True,
            "layer_types": ["full_attention"] * 2,
        },
        mask="|<MASK>|",
        declared={**ENDED, "additional_special_tokens": ["|<MASK>|"]},
        block=32,
        bare=True,
    ),
    "A2D-Qwen2": Model(
        family=a2d.QWEN2_FAMILY,
        config={**SHAPE, **QWEN, "model_type": "a2d-qwen2", "eos_token_id": END},
        mask="<|mask|>",
        declared={**ENDED, "mask_token": "<|mask|>"},
    ),
    "A2D-Llama": Model(
        family=a2d.LLAMA_FAMILY,
        config={
            **SHAPE,
            "model_type": "a2d-llama",
            "eos_token_id": 257,
            "attention_bias": False,
            "mlp_bias": False,
            "pretraining_tp": 1,
        },
        mask="<|mask|>",
        declared={"eos_token": "<|end_of_text|>", "mask_token": "<|mask|>"},
        names=(*LLAMA, "<|eot_id|>"),
    ),
    "A2D-bd3lm": Model(
        family=a2d.FAMILY,
        config={
            **QWEN3,
            "model_type": "a2d-qwen3",
            "eos_token_id": END,
            "tie_word_embeddings": True,
        },
        mask="<|mask|>",
        declared={**ENDED, "mask_token": "<|mask|>"},
        block=32,
        folder="Qwen3-0.6B-diffusion-bd3lm-v0.1",
    ),
}
BLOCKED = [name for name, model in MODELS.items() if model.block is not None]


def write(parent: Path, model: Model, **changes: Any) -> Path:
    """Write the checkpoint with random weights; return its folder."""
    folder = parent / model.folder
    folder.mkdir(parents=True)
    config = {"architectures": [model.family.architecture], **model.config, **changes}
    (folder / "config.json").write_text(json.dumps(config))
    with torch.device("meta"):
        network = model.family.build({**model.family.named(model.folder), **config})
    generator = torch.Generator().manual_seed(0)
    weights = {
        name: torch.randn(place.shape, generator=generator) * 0.3 + name.endswith("norm.weight")
        for name, place in stacked(network, model.family.tensor_map(network)).items()
    }
    save_file(weights, folder / "model.safetensors")
    _write_tokenizer(folder, model)
    return folder


def _write_tokenizer(folder: Path, model: Model) -> None:
    names = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *model.names, model.mask]
    vocab = {name: i for i, name in enumerate(names)}
    tokens = {
        # SDAR's files do not call its mask special.
        vocab[n]: AddedToken(n, special="think" not in n and n != "<|MASK|>", normalized=False)
        for n in (*model.names, model.mask)
    }
    declared = dict(model.declared)
    if model.bare:
        (folder / "vocab.json").write_text(json.dumps({n: vocab[n] for n in names[:256]}))
        (folder / "merges.txt").write_text("#version: 0.2\n")
        declared["added_tokens_decoder"] = {
            str(i): {"content": t.content, "special": t.special} for i, t in tokens.items()
        }
    else:
        made = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=[]))
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        made.decoder = decoders.ByteLevel()
        made.add_tokens(list(tokens.values()))
        made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(declared))


def load(folder: Path) -> NativeDenoiser:
    denoiser = remask.load(folder, device="cpu", dtype="float32")
    assert isinstance(denoiser, NativeDenoiser)
    return denoiser


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_checkpoint_keeps_the_contract(tmp_path: Path, name: str) -> None:
    denoiser = load(write(tmp_path, MODELS[name]))
    assert denoiser.block_size == MODELS[name].block
    check_denoiser(denoiser)


KEY = "block_size"  # of most families
BLOCK_KEYS = {"Fast-dLLM": "bd_size"}


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("name", ["SDAR", "Fast-dLLM", "A2D-bd3lm"])
def test_the_contract_holds_for_blocks_of_every_size(tmp_path: Path, name: str, size: int) -> None:
    """Wherever they begin, and whether or not rows are shifted, the row of a check fits them."""
    check_denoiser(load(write(tmp_path, MODELS[name], **{BLOCK_KEYS.get(name, KEY): size})))


@pytest.mark.parametrize("size", [3, 4, 8])
@pytest.mark.parametrize("name", ["SDAR", "Fast-dLLM", "A2D-bd3lm"])
def test_blocks_that_cannot_look_ahead_are_caught(
    tmp_path: Path, name: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attention that is causal inside its blocks too."""
    denoiser = load(write(tmp_path, MODELS[name], **{BLOCK_KEYS.get(name, KEY): size}))
    plain = Network.visible

    def causal(
        self: Network, length: int, attend: Tensor | None, lacking: Tensor | None = None
    ) -> Tensor:
        seen = plain(self, length, attend, lacking)
        assert seen is not None
        return seen & torch.ones(length, length, dtype=torch.bool).tril()

    monkeypatch.setattr(Network, "visible", causal)
    with pytest.raises(AssertionError, match="no earlier position sees the last token"):
        check_denoiser(denoiser)


@pytest.mark.parametrize("name", MODELS)
def test_the_mask_token_is_the_authors(tmp_path: Path, name: str) -> None:
    model = MODELS[name]
    tokenizer = load(write(tmp_path, model)).tokenizer
    assert tokenizer.backend.id_to_token(tokenizer.mask_id) == model.mask
    assert tokenizer.mask_id == 256 + len(model.names)


@pytest.mark.parametrize("name", MODELS)
def test_no_text_may_spell_the_mask(tmp_path: Path, name: str) -> None:
    tokenizer = load(write(tmp_path, MODELS[name])).tokenizer
    with pytest.raises(InputError, match="the prompt contains the mask token"):
        tokenizer.render(f"What is 2 {MODELS[name].mask} 2?")


@pytest.mark.parametrize(
    ("name", "ends", "pad"),
    [
        ("SDAR", (PAD, END), PAD),
        ("SDAR-MoE", (PAD, END), PAD),
        ("DreamReasoner", (PAD, END), PAD),
        ("Fast-dLLM", (END,), END),
        ("A2D-Qwen2", (PAD, END), PAD),
        ("A2D-Llama", (257, 260), 257),
        ("A2D-bd3lm", (PAD, END), PAD),
    ],
)
def test_what_ends_an_answer_and_what_fills_its_tail(
    tmp_path: Path, name: str, ends: tuple[int, ...], pad: int
) -> None:
    tokenizer = load(write(tmp_path, MODELS[name])).tokenizer
    assert (tokenizer.eos_ids, tokenizer.pad_id) == (ends, pad)


@pytest.mark.parametrize("name", MODELS)
def test_the_tokenizer_of_another_family_is_refused(tmp_path: Path, name: str) -> None:
    """Its ids may fit, and its turns would be read as text."""
    model = MODELS[name]
    folder = write(tmp_path, model)
    other = "A2D-Qwen2" if name == "A2D-Llama" else "A2D-Llama"
    for path in (folder / "vocab.json", folder / "merges.txt"):
        path.unlink(missing_ok=True)
    _write_tokenizer(folder, replace(MODELS[other], mask=model.mask, declared={}))
    with pytest.raises(CheckpointError, match=r"lacks <\|\w+\|> of the chat template of"):
        load(folder)


def test_the_mask_of_sdar_is_known_by_its_spelling_where_no_file_names_it(tmp_path: Path) -> None:
    folder = write(tmp_path, MODELS["SDAR"])
    (folder / "tokenizer_config.json").unlink()
    assert load(folder).tokenizer.mask_id == 261


@pytest.mark.parametrize("name", BLOCKED)
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({KEY: 513}, "as 513, more than the 512 tokens of max_position_embeddings"),
        (
            {"layer_types": ["full_attention", "sliding_attention"]},
            "supports 'full_attention' in every layer only",
        ),
        ({"layer_types": "full_attention"}, "sets layer_types to 'full_attention'"),
    ],
)
def test_sight_that_the_network_does_not_have_is_refused(
    tmp_path: Path, name: str, changes: dict[str, Any], told: str
) -> None:
    folder = write(tmp_path, MODELS[name])
    path = folder / "config.json"
    changes = {BLOCK_KEYS.get(name, key) if key == KEY else key: changes[key] for key in changes}
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(CheckpointError, match=told):
        load(folder)


SYSTEM = "system\nYou are a helpful assistant."
QWEN_SYSTEM = "system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant."


@pytest.mark.parametrize(
    ("name", "system", "thought"),
    [
        ("SDAR", "", False),
        ("SDAR-MoE", "", False),
        ("DreamReasoner", "", False),
        ("Fast-dLLM", SYSTEM, False),
        ("A2D-Qwen2", QWEN_SYSTEM, False),
        ("A2D-bd3lm", "", True),
    ],
)
def test_a_rendered_prompt_is_chatml(tmp_path: Path, name: str, system: str, thought: bool) -> None:
    tokenizer = load(write(tmp_path, MODELS[name])).tokenizer
    encode = tokenizer.encode
    before = [START, *encode(system), END, *encode("\n")] if system else []
    after = [259, *encode("\n\n"), 260, *encode("\n\n")] if thought else []
    assert tokenizer.render(" 2+2?\n") == [
        *before,
        *(START, *encode("user\n 2+2?\n"), END, *encode("\n")),
        *(START, *encode("assistant\n"), *after),
    ]


def test_llamas_turns_have_headers_and_no_blanks_at_their_ends(tmp_path: Path) -> None:
    tokenizer = load(write(tmp_path, MODELS["A2D-Llama"])).tokenizer
    encode = tokenizer.encode
    assert tokenizer.render(" 2+2?\n") == [
        *(256, 258, *encode("user"), 259, *encode("\n\n2+2?"), 260),
        *(258, *encode("assistant"), 259, *encode("\n\n")),
    ]


@pytest.mark.parametrize(
    ("name", "folder", "size"),
    [
        ("SDAR", "SDAR-1.7B-Chat", 4),
        ("SDAR", "SDAR-1.7B-Chat-b32", 32),
        ("SDAR", "SDAR-4B-Chat-b8", 8),
        ("SDAR-MoE", "SDAR-30B-A3B-Chat-b16", 16),
        ("A2D-bd3lm", "Qwen3-0.6B-diffusion-bd3lm-v0.1", 32),
        ("A2D-bd3lm", "my-BD3LM", 32),
        ("A2D-bd3lm", "Qwen3-0.6B-diffusion-mdlm-v0.1", None),
        ("A2D-Qwen2", "Qwen2.5-Coder-0.5B-Instruct-diffusion-bd3lm-v0.1", 32),
        ("A2D-Llama", "llama-bd3lm", 32),
    ],
)
def test_a_name_tells_the_blocks_that_config_does_not(
    tmp_path: Path, name: str, folder: str, size: int | None
) -> None:
    """Of a folder, or of a repository in the hub's cache; what config.json says comes first."""
    config = {"architectures": [MODELS[name].family.architecture], **MODELS[name].config}
    hub = tmp_path / f"models--owner--{folder}" / "snapshots" / ("0" * 40)
    for place in (tmp_path / folder, hub):
        assert outline(config, place).block_size == size
        assert outline({**config, "block_size": None}, place).block_size == size
        assert outline({**config, "block_size": 16}, place).block_size == 16
    assert outline(config, tmp_path / folder / "copy").block_size == (4 if "SDAR" in name else None)


@pytest.mark.parametrize(
    ("name", "changes", "what"),
    [
        ("SDAR", {"block_size": 0}, "gives block_size as 0; it must be a whole number above 0"),
        ("SDAR", {"block_size": True}, "gives block_size as True"),
        ("Fast-dLLM", {"bd_size": "32"}, "gives bd_size as '32'"),
        ("SDAR", {"attention_bias": True}, "sets attention_bias to True"),
        ("DreamReasoner", {"use_sliding_window": True}, "sets use_sliding_window to True"),
        ("A2D-Llama", {"mlp_bias": True}, "sets mlp_bias to True"),
        ("A2D-Llama", {"rope_scaling": {"rope_type": "yarn"}}, "sets rope_scaling"),
        ("SDAR-MoE", {"mlp_only_layers": [1]}, "has experts in every layer"),
        ("SDAR-MoE", {"decoder_sparse_step": 2}, "has experts in every layer"),
        ("SDAR-MoE", {"num_experts_per_tok": 9}, "num_experts_per_tok 9, more than num_experts 8"),
    ],
)
def test_what_is_not_obeyed_is_refused(name: str, changes: dict[str, Any], what: str) -> None:
    with pytest.raises(CheckpointError, match=what):
        MODELS[name].family.build({**MODELS[name].config, **changes})


@pytest.mark.parametrize("name", BLOCKED)
def test_answers_and_round_trips_do_not_depend_on_company(tmp_path: Path, name: str) -> None:
    denoiser = load(write(tmp_path, MODELS[name]))
    size = denoiser.block_size or 0
    how = SamplerSettings(length=2 * size, steps=2 * size, block=size, reveal_threshold=0.3)
    prompts = [denoiser.tokenizer.render(text) for text in ("One.", "And another question?", "!")]
    items = ["a", "b", "c"]
    together = sample(denoiser, prompts, how, items=items)
    alone = [
        sample(denoiser, [prompt], how, items=[item])[0]
        for prompt, item in zip(prompts, items, strict=True)
    ]
    assert [a.canvas for a in together] == [a.canvas for a in alone]
    assert [a.forwards for a in together] == [a.forwards for a in alone]
    trips = ConsistencySettings(trips=2, rebuild_steps=3)
    rebuilt = round_trips(denoiser, together, trips)
    for answer, found in zip(together, rebuilt, strict=True):
        (lone,) = round_trips(denoiser, [answer], trips)
        assert torch.equal(lone.rebuilt, found.rebuilt)


@pytest.mark.parametrize("name", ["Fast-dLLM", "A2D-bd3lm"])
def test_wrappers_keep_what_is_peculiar(tmp_path: Path, name: str) -> None:
    """A cache that carries what is said behind it, and blocks that begin with the answer."""
    denoiser = load(write(tmp_path, MODELS[name]))
    check_denoiser(Twice(denoiser))
    check_denoiser(Suppressed(denoiser, ids=(7,)))


@pytest.mark.parametrize("name", BLOCKED)
def test_the_authors_presets_start_with_supported_settings(name: str) -> None:
    """Every id of the family has one that it starts with, in blocks of the model's own."""
    model = MODELS[name]
    ids = [c for c in CHECKPOINTS if c.architecture == model.family.architecture]
    ids = [c for c in ids if model.block == outlined_block(model, c.id)]
    assert ids
    for checkpoint in ids:
        assert not any(p.unsupported for p in checkpoint.presets)
        preset = default_preset(checkpoint.id)
        assert preset is not None
        assert preset.block == model.block
        assert SamplerSettings.of(preset).length <= 1024


def outlined_block(model: Model, name: str) -> int | None:
    told = {**model.family.named(name.rpartition("/")[2]), **model.config}
    return model.family.build(told).block_size
