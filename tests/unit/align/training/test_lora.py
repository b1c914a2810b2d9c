"""Adapters: where they go in every family, and that they melt into the weights."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from remask.align import lora
from remask.align.policy import load_policy, trained
from remask.align.settings import AlignSettings
from remask.denoisers import (
    a2d,
    dream,
    dreamreasoner,
    fast_dllm,
    illada,
    llada,
    llada2,
    llada_moe,
    sdar,
)
from remask.denoisers.load import EMBEDDED, FAMILIES, outline
from remask.denoisers.native import Family, Network
from remask.denoisers.tokenizer import read_json
from remask.errors import SettingsError

Settings = Callable[..., AlignSettings]
QWEN: dict[str, Any] = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
    "intermediate_size": 24, "vocab_size": 64, "rope_theta": 1e4, "max_position_embeddings": 64,
}  # fmt: skip
MOE = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
    "num_experts": 4, "num_experts_per_tok": 2, "expert_intermediate_size": 8,
    "qk_layernorm": True, "rope_theta": 1e4, "vocab_size": 64, "max_position_embeddings": 64,
}  # fmt: skip
BLOCKS = {
    **QWEN, "head_dim": 8, "first_k_dense_replace": 1, "num_experts": 8, "num_experts_per_tok": 2,
    "num_shared_experts": 1, "moe_intermediate_size": 8, "n_group": 4, "topk_group": 2,
    "block_size": 4,
}  # fmt: skip
LLADA = {
    "d_model": 16, "n_layers": 2, "n_heads": 2, "n_kv_heads": 2, "mlp_hidden_size": 24,
    "vocab_size": 64, "max_sequence_length": 64,
}  # fmt: skip
ATTENTION = {"attention.qkv", "attention.out"}
DENSE = {"mlp.gate_up", "mlp.down"}
SHARED = {"mlp.shared.gate_up", "mlp.shared.down"}
CASES: dict[str, tuple[Family, dict[str, Any], set[str]]] = {
    "llada": (llada.FAMILY, LLADA, ATTENTION | DENSE),
    "dream": (dream.FAMILY, QWEN, ATTENTION | DENSE),
    "a2d": (a2d.FAMILY, QWEN, ATTENTION | DENSE),
    "illada": (illada.FAMILY, QWEN, ATTENTION | DENSE),
    "llada_moe": (llada_moe.FAMILY, MOE, ATTENTION),
    "llada2": (llada2.FAMILY, BLOCKS, ATTENTION | DENSE | SHARED),
    "a2d_qwen2": (a2d.QWEN2_FAMILY, QWEN, ATTENTION | DENSE),
    "a2d_llama": (a2d.LLAMA_FAMILY, QWEN, ATTENTION | DENSE),
    "sdar": (sdar.FAMILY, QWEN, ATTENTION | DENSE),
    "sdar_moe": (
        sdar.MOE_FAMILY,
        {**QWEN, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8},
        ATTENTION,
    ),
    "dreamreasoner": (dreamreasoner.FAMILY, QWEN, ATTENTION | DENSE),
    "fast_dllm": (fast_dllm.FAMILY, QWEN, ATTENTION | DENSE),
}


def filled(family: Family, config: dict[str, Any]) -> Network:
    network = family.build(config)
    generator = torch.Generator().manual_seed(0)
    for parameter in network.requires_grad_(False).parameters():
        if parameter.dim() > 1:
            parameter.normal_(0, 0.3, generator=generator)
    return network.eval()


def test_there_is_a_case_for_every_family() -> None:
    assert {family.architecture for family, _, _ in CASES.values()} == FAMILIES.keys()


@pytest.mark.parametrize("name", CASES)
def test_every_family_has_its_targets_and_no_other(name: str) -> None:
    family, config, wanted = CASES[name]
    found = lora.find_targets(family.build(config))
    assert {".".join(target.split(".")[2:]) for target in found} == wanted
    assert all(target.startswith("blocks.") for target in found)


def test_the_embedded_model_has_targets_in_each_of_its_layers() -> None:
    network = outline(read_json(EMBEDDED / "config.json"), EMBEDDED)
    assert len(lora.find_targets(network)) == 4 * len(network.blocks)


@pytest.mark.parametrize("name", CASES)
def test_a_deep_network_gets_its_adapters_at_the_targets_and_nowhere_else(
    name: str, settings: Settings
) -> None:
    """From twenty names on peft looks for shorter ones that mean the same."""
    family, config, _ = CASES[name]
    layers = "n_layers" if name == "llada" else "num_hidden_layers"
    network = filled(family, {**config, layers: 11})
    targets = lora.find_targets(network)
    lora.attach(network, settings(tuning="lora"))
    assert len(targets) >= 20
    assert [module for module, _ in lora.adapted(network)] == targets


@pytest.mark.parametrize("wanted", [("o_proj",), ("attention.qkv", "gate_proj"), ("ut",)])
def test_targets_that_match_nothing_are_refused_with_those_there_are(
    wanted: tuple[str, ...],
) -> None:
    """`ut` ends the letters of attention.out, and no part of its name."""
    with pytest.raises(SettingsError, match=rf"linear layers of LLaDA .*, got {wanted[-1]}"):
        lora.find_targets(llada.FAMILY.build(LLADA), wanted)


def test_a_network_without_linear_layers_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"\(none\)"):
        lora.find_targets(nn.Sequential(nn.LayerNorm(3)))


@pytest.mark.parametrize("name", CASES)
def test_adapters_change_nothing_at_first_and_melt_into_the_weights(
    name: str, settings: Settings
) -> None:
    family, config, _ = CASES[name]
    network = filled(family, config)
    tokens = torch.arange(8)[None] + 3
    with torch.no_grad():
        before = network.project(network(tokens))
        lora.attach(network, settings(tuning="lora", lora_rank=3))
        network.eval()
        assert torch.equal(network.project(network(tokens)), before)
        for _, layer in lora.adapted(network):
            layer.lora_B["default"].weight.normal_(
                0, 0.3, generator=torch.Generator().manual_seed(1)
            )
        after = network.project(network(tokens))
        assert not torch.allclose(after, before, atol=1e-2)
        plain = family.build(config).eval()
        plain.load_state_dict(lora.merged(network, network.state_dict()))
        torch.testing.assert_close(plain.project(plain(tokens)), after, atol=1e-4, rtol=1e-4)
        with lora.without_adapters(network):
            assert torch.equal(network.project(network(tokens)), before)
    learning = {n for n, p in network.named_parameters() if p.requires_grad}
    assert all(".lora_" in n for n in learning)
    assert len(learning) == 2 * len(lora.adapted(network))


def test_an_adapter_is_saved_in_the_layout_of_peft_and_read_again(
    settings: Settings, tmp_path: Path, fill_adapters: Callable[[nn.Module, Path], None]
) -> None:
    from peft import LoraConfig

    s = settings(tuning="lora")
    network, other = filled(llada.FAMILY, LLADA), filled(llada.FAMILY, LLADA)
    lora.attach(network, s)
    for _, layer in lora.adapted(network):
        nn.init.ones_(layer.lora_B["default"].weight)
    lora.save_adapter(network, network.state_dict(), s, tmp_path)
    assert LoraConfig.from_pretrained(tmp_path).r == s.lora_rank
    lora.attach(other, replace(s, seed=9))
    fill_adapters(other, tmp_path)
    tokens = torch.arange(8)[None] + 3
    assert torch.equal(network.eval()(tokens), other.eval()(tokens))


def test_adapters_that_are_not_used_for_a_moment_still_learn(settings: Settings) -> None:
    """A divided network that is told otherwise has another gradient on its next update."""
    policy = load_policy(settings(tuning="lora"))
    learn = list(trained(policy))
    with lora.without_adapters(policy.model):
        assert list(trained(policy)) == learn
    assert list(trained(policy)) == learn
