"""Load a denoiser by name, folder or hub id. The only module that imports every family.

Checkpoints are read in the hub's layout; their code never runs. Names and shapes of all tensors,
file sizes and memory are checked before weights are read. Weights are then copied tensor by tensor
to each device, so the host holds one tensor at a time.
"""

import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from remask.denoisers import (
    a2d,
    catalog,
    devices,
    dream,
    dreamreasoner,
    fast_dllm,
    illada,
    llada,
    llada2,
    llada_moe,
    packing,
    sdar,
)
from remask.denoisers import split as splitting
from remask.denoisers.base import Denoiser, Preset
from remask.denoisers.devices import choose_devices, choose_dtype
from remask.denoisers.native import Family, NativeDenoiser, Network
from remask.denoisers.preset import has_chosen_settings
from remask.denoisers.quantise import FULL, find_format
from remask.denoisers.special_ids import with_chat
from remask.denoisers.tokenizer import Tokenizer, read_json
from remask.denoisers.weights import (
    SPARE,
    WeightFiles,
    check_folder,
    check_head,
    check_tensors,
    fill,
    refuse_quantised,
)
from remask.denoisers.wrap import Replicas
from remask.errors import CheckpointError, SettingsError
from remask.extension import import_object, resolve
from remask.settings import checked

EMBEDDED = Path(__file__).parent / "embedded"
FAMILIES = {
    family.architecture: family
    for family in (
        llada.FAMILY,
        dream.FAMILY,
        a2d.FAMILY,
        llada_moe.FAMILY,
        llada2.FAMILY,
        illada.FAMILY,
        a2d.QWEN2_FAMILY,
        a2d.LLAMA_FAMILY,
        sdar.FAMILY,
        sdar.MOE_FAMILY,
        dreamreasoner.FAMILY,
        fast_dllm.FAMILY,
    )
}
# Unsupported diffusion models: prefix of the architecture, and the reason.
UNFIT = {"DiffusionGemma": "it has no mask token, its noise is random tokens"}
# On an H200, int8 did not compile within two minutes; nf4 was not tried.
UNCOMPILED = ("int8", "nf4")
_COMPILERS = ("cc", "gcc", "clang", "cl")  # torch.compile needs one, also on CUDA
_TOKEN = re.compile(r"<\|[^<>|]+\|>")  # special tokens in templates
_CAUSAL = ("ForCausalLM", "LMHeadModel")  # architectures of autoregressive models


@checked
def load(
    model: str | Path,
    *,
    device: str = "auto",
    dtype: str = "auto",
    compiled: bool = False,
    preset: str = "",
    split: str = "replicas",
    weights: str = FULL,
) -> Denoiser:
    """Return the denoiser called `model`: "tiny" (the embedded one), a folder, or a hub id.

    Args:
        model: name, folder or hub id; or `module:name` of your function that takes `device` and
            `dtype` and returns a denoiser. The other arguments do not apply to it.
        device: "auto" is CUDA, else Metal (mps), else the CPU. A list such as "cuda:0,cuda:1", or
            "all" CUDA devices: batches are spread over replicas.
        dtype: "auto" is bfloat16 on CUDA and Metal, and float32 on the CPU.
        compiled: compile the blocks, once per batch shape; worth it on CUDA for many batches. Not
            available for int8 and nf4 weights.
        preset: name of a published preset (`catalog.find_preset`). Default: the settings of the
            checkpoint's files, else `catalog.default_preset`.
        split: use of several devices: "replicas", or "layers" to spread one model over them.
        weights: "full", or the format of large weights: "int8", "nf4" (extra `quant`) or "fp8".
    """
    if _is_outside(str(model)):
        return _load_outside(str(model), device, dtype, weights, compiled)
    wanted = catalog.preset(str(model), preset) if preset else None
    targets = choose_devices(device)
    splitting.check(split, targets, device)
    precision, form = choose_dtype(dtype, targets[0]), find_format(weights)
    if form is not None:
        form.check(targets[0], precision)
    if compiled:
        _check_compiler(weights)
    folder = find_folder(str(model))
    check_folder(folder)
    config = read_config(folder)
    family, shards = find_family(config, folder), WeightFiles(folder)
    whole = targets if split == "replicas" else targets[:1]
    networks = [packing.pack(outline(config, folder).to(precision), form) for _ in whole]
    tokenizer = _tokenizer(folder, config, family)
    tokenizer = replace(tokenizer, max_length=networks[0].max_length)
    how = find_preset(str(model), folder, wanted)
    how = replace(how, schedule=family.schedule, named=bool(preset))
    if networks[0].block_size is not None:  # no other blocks can be written
        how = how.in_blocks(networks[0].block_size)
    if split == "layers":
        _place_layers(networks[0], targets, family, shards, name=str(model))
    else:
        _place(networks, targets, family, shards, name=str(model))
    if compiled:
        for network in networks:
            network.compile_blocks()
    loaded = [
        NativeDenoiser(name=str(model), model=network, tokenizer=tokenizer, preset=how)
        for network in networks
    ]
    return loaded[0] if len(loaded) == 1 else Replicas(loaded[0], others=tuple(loaded[1:]))


def _is_outside(model: str) -> bool:
    return ":" in model and not Path(model).exists()


def _check_compiler(weights: str) -> None:
    if weights in UNCOMPILED:
        raise SettingsError(f"compile requires weights {FULL} or fp8, got {weights}.")
    named = [os.environ[name] for name in ("CC", "CXX") if os.environ.get(name)]
    if not any(map(shutil.which, [*named, *_COMPILERS])):
        raise SettingsError("compile requires a C compiler; install one, such as gcc.")


def _load_outside(model: str, device: str, dtype: str, weights: str, compiled: bool) -> Denoiser:
    if compiled:
        raise SettingsError(f"compile requires a model of this package, got {model!r}.")
    if weights != FULL:
        raise SettingsError(f"weights {weights!r} requires a model of this package, got {model!r}.")
    make: Callable[..., Denoiser] = import_object("model", model)
    if not callable(make):
        raise SettingsError(f"model {model!r} must be a function, got {type(make).__name__}.")
    return resolve("model", make(device=device, dtype=dtype), {}, ("tokenizer", "hidden", "head"))


def read_config(folder: Path) -> dict[str, Any]:
    """Return config.json, completed from tensor names and from the name of the checkpoint."""
    config = read_json(folder / "config.json")
    family = find_family(config, folder)
    open_keys = {key: end for key, end in family.settled.items() if config.get(key) is None}
    names = list(WeightFiles(folder).headers()) if open_keys else []
    flags = {key: any(name.endswith(end) for name in names) for key, end in open_keys.items()}
    known = {**family.named(checkpoint_name(folder)), **flags}
    return {**config, **{k: v for k, v in known.items() if config.get(k) is None}}


def _tokenizer(folder: Path, config: dict[str, Any], family: Family) -> Tokenizer:
    family = with_chat(family, config)
    tokenizer = Tokenizer.read(folder, config, family)
    for token in family.inferred:
        if tokenizer.backend.token_to_id(token) is None:
            raise CheckpointError(
                f"the tokenizer of {folder} lacks {token}, which we expected in the chat template "
                f"of {family.architecture}; correct the template in the module of the family."
            )
    for token in _TOKEN.findall(family.template) if family.turns else ():
        if tokenizer.backend.token_to_id(token) is None:
            raise CheckpointError(
                f"the tokenizer of {folder} lacks {token} of the chat template of "
                f"{family.architecture}; copy the tokenizer of this model."
            )
    return tokenizer


def find_preset(model: str, folder: Path, wanted: Preset | None = None) -> Preset:
    """Return the requested preset, else that of the files, of the catalogue or of the family."""
    path = folder / "generation_config.json"
    default = catalog.family_preset(
        find_family(read_json(folder / "config.json"), folder).architecture
    )
    config = read_json(path) if path.exists() else {}
    own = Preset.read(config, default)
    published = wanted or (None if has_chosen_settings(config) else catalog.default_preset(model))
    return own if published is None else published.with_thresholds(own)


def _place(
    networks: Sequence[Network],
    targets: Sequence[torch.device],
    family: Family,
    shards: WeightFiles,
    *,
    name: str,
) -> None:
    """Check everything, then move outlined replicas to their devices and fill them."""
    check_weights(networks[0], family, shards)
    for target, num in Counter(targets).items():
        devices.check_memory(name, networks[0], target, num)
    for network, target in zip(networks, targets, strict=True):
        network.to_empty(device=target)
    fill([packing.places(network, family.tensor_map(network)) for network in networks], shards)
    for network in networks:
        network.eval().requires_grad_(False)


def _place_layers(
    network: Network,
    targets: Sequence[torch.device],
    family: Family,
    shards: WeightFiles,
    *,
    name: str,
) -> None:
    """Check everything, then spread an outlined network over devices and fill it."""
    check_weights(network, family, shards)
    tied = splitting.untie(network)
    free = {target: devices.free_memory(target) for target in targets}
    places = splitting.homes(network, targets, free)
    splitting.check_memory(name, network, places, free)
    splitting.place(network, places)
    fill([packing.places(network, family.tensor_map(network))], shards)
    if tied:
        splitting.copy_head(network)
    network.eval().requires_grad_(False)


def check_weights(network: Network, family: Family, shards: WeightFiles) -> None:
    """Raise unless the files hold exactly the tensors of the network."""
    places = packing.places(network, family.tensor_map(network))
    spare = {**SPARE, **family.spare}
    if network.unembedding is not None:
        check_tensors(places, shards, spare)
        return
    check_tensors(places, shards, {**spare, family.head: "the head is the embedding"})
    ((embedding, _),) = dict(family.tensor_map(network))["embedding.weight"]
    check_head(shards, family.head, embedding)


def find_folder(model: str) -> Path:
    """Return the folder of a checkpoint; a hub id is downloaded if it is not cached."""
    return _find(model, ["*.json", "*.safetensors", "*.txt"])


def find_config(model: str) -> Path:
    """Return the config.json of a checkpoint without downloading its weights."""
    return _find(model, ["config.json"]) / "config.json"


def _find(model: str, patterns: list[str]) -> Path:
    if model == "tiny":
        if not (EMBEDDED / "config.json").exists():
            raise CheckpointError("this copy of remask has no embedded model; install a release.")
        return EMBEDDED
    try:
        if model and Path(model).is_dir():
            return _regular(Path(model))
        if model and Path(model).is_file():
            raise CheckpointError(f"model {model!r} is a file; name the folder of the checkpoint.")
    except OSError as error:
        raise CheckpointError(f"model {model!r} cannot be read ({error.strerror}).") from None
    if model.count("/") != 1 or model.startswith((".", "/", "~")):
        raise CheckpointError(
            f"model {model!r} is neither 'tiny', nor a folder, nor a hub id such as "
            f"GSAI-ML/LLaDA-8B-Instruct.{catalog.suggestion(model)}"
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(model, allow_patterns=patterns))
    except Exception as error:  # network, permission and spelling all end here, as one sentence
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        reason = reason.removeprefix("Got: ").rstrip(".")
        raise CheckpointError(
            f"{model} could not be fetched from the hub: {reason}.{catalog.suggestion(model)}"
        ) from None


def _regular(folder: Path) -> Path:
    """Return the folder, or raise if it holds a pipe or a device, which could block forever."""
    for path in sorted(folder.iterdir()):
        if path.exists() and not path.is_file() and not path.is_dir():
            raise CheckpointError(f"{path} must be a regular file.")
    return folder


def find_family(config: dict[str, Any], folder: Path) -> Family:
    """Return the family of the architecture in config.json."""
    architecture = _architecture(config, folder)
    for start, reason in UNFIT.items():
        if architecture.startswith(start):
            raise CheckpointError(
                f"{folder / 'config.json'} declares the architecture {architecture!r}: {reason}; "
                "choose a masked diffusion model."
            )
    if architecture not in FAMILIES:
        why = "; this one looks autoregressive" if architecture.endswith(_CAUSAL) else ""
        raise CheckpointError(
            f"{folder / 'config.json'} declares the architecture {architecture!r}; "
            f"known are {', '.join(FAMILIES)}{why}."
        )
    return FAMILIES[architecture]


def _architecture(config: dict[str, Any], folder: Path) -> str:
    """Return the first architecture of config.json, else the only one of its model_type."""
    declared = config.get("architectures")
    listed = [declared] if isinstance(declared, str) else declared or []
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise CheckpointError(
            f"{folder / 'config.json'} gives architectures as {declared!r}; "
            "it must be a list of names."
        )
    if listed:
        return str(listed[0])
    kind = config.get("model_type")
    fitting = [name for name, family in FAMILIES.items() if kind in family.model_types]
    if len(fitting) != 1:
        which = f"model_type {kind!r} could be {' or '.join(fitting) or 'anything'}"
        raise CheckpointError(
            f"{folder / 'config.json'} declares no architecture ('missing'), and {which}; "
            "name one in architectures."
        )
    return fitting[0]


def outline(config: dict[str, Any], folder: Path) -> Network:
    """Return the network that config.json describes, without weights, on the meta device."""
    family = find_family(config, folder)
    refuse_quantised(config)
    named = family.named(checkpoint_name(folder)).items()
    missing = {key: value for key, value in named if config.get(key) is None}
    try:
        with torch.device("meta"):
            return family.build({**config, **missing})
    except (RuntimeError, OverflowError):  # torch cannot count so many elements
        raise CheckpointError(
            f"{folder / 'config.json'} describes a network that is too large; download it again."
        ) from None


def checkpoint_name(folder: Path) -> str:
    """Return what a checkpoint is called: its folder, or its repository in the hub's cache."""
    whole = folder.resolve()
    return whole.parent.parent.name if whole.parent.name == "snapshots" else whole.name
