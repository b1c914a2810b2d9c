"""A name, a folder or a hub id -> a Denoiser. The only file that knows every family.

Checkpoints are read in the hub's layout and never through remote code. What can go wrong is found
out before minutes of reading: the sizes of the files, the names and shapes of all tensors and the
memory they need are checked from the headers alone. Then weights are copied tensor by tensor to the
device, or to each of several, so the host never holds more than the shard that is open.
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
# Diffusion models that this package cannot serve, by how their architecture begins, and why.
UNFIT = {"DiffusionGemma": "it has no mask token, its noise is random tokens"}
# On an H200 compiling int8 had not ended after two minutes; nf4 was not tried.
UNCOMPILED = ("int8", "nf4")
_COMPILERS = ("cc", "gcc", "clang", "cl")  # torch needs one, for CUDA too
_TOKEN = re.compile(r"<\|[^<>|]+\|>")  # how special tokens are spelled in templates
_CAUSAL = ("ForCausalLM", "LMHeadModel")  # how libraries call what writes from left to right


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
        model: name, folder or hub id; or `module:name`, a function of yours that takes `device`
            and `dtype` and returns a denoiser, which the other arguments do not reach.
        device: "auto" takes CUDA where there is one, else Metal (mps), else the CPU. Several, as in
            "cuda:0,cuda:1", or "all" of CUDA: a replica on each, among which batches are spread.
        dtype: "auto" is bfloat16 on CUDA and Metal, and float32 on the CPU.
        compiled: compile the trunk, once for each shape of a batch; pays on CUDA when many batches
            follow. Weights in int8 and nf4 are not compiled.
        preset: name of a published preset (`catalog.find_preset`). Default: the settings of the
            checkpoint's files, else `catalog.default_preset`.
        split: of several devices: "replicas", or "layers" of one model, which fits on none alone.
        weights: "full", as the dtype says; or the format that the large ones are packed in while
            they are read: "int8", "nf4" (extra `quant`) or "fp8" (`packing`).
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
    """Say whether a name is `module:name`, of a denoiser that the package does not know."""
    return ":" in model and not Path(model).exists()


def _check_compiler(weights: str) -> None:
    """Refuse to compile where it does not end, or would end with a trace of torch's."""
    if weights in UNCOMPILED:
        raise SettingsError(
            f"compiling goes with weights {FULL} or fp8, not with {weights}; leave one of the two "
            "out."
        )
    named = [os.environ[name] for name in ("CC", "CXX") if os.environ.get(name)]
    if not any(map(shutil.which, [*named, *_COMPILERS])):
        raise SettingsError(
            "compiling needs a C compiler, and there is none here; install one, such as gcc, or "
            "leave compiling out."
        )


def _load_outside(model: str, device: str, dtype: str, weights: str, compiled: bool) -> Denoiser:
    if compiled:
        raise SettingsError(
            f"only networks of this package are compiled, and model {model!r} is yours; leave "
            "compiling out."
        )
    if weights != FULL:
        raise SettingsError(
            f"weights {weights!r} packs the networks of this package, and model {model!r} is "
            "yours; leave it out."
        )
    make: Callable[..., Denoiser] = import_object("model", model)
    if not callable(make):
        raise SettingsError(f"model {model!r} is {type(make).__name__}, not a function.")
    return resolve("model", make(device=device, dtype=dtype), {}, ("tokenizer", "hidden", "head"))


def read_config(folder: Path) -> dict[str, Any]:
    """Return config.json, with what only the tensors or the name of the checkpoint tell."""
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
                f"the tokenizer of {folder} has no {token}, of which the chat template of "
                f"{family.architecture} was thought to be made; correct the template in its file."
            )
    for token in _TOKEN.findall(family.template) if family.turns else ():
        if tokenizer.backend.token_to_id(token) is None:
            raise CheckpointError(
                f"the tokenizer of {folder} has no {token}, of which the chat template of "
                f"{family.architecture} is made; it is another model's, copy it again."
            )
    return tokenizer


def find_preset(model: str, folder: Path, wanted: Preset | None = None) -> Preset:
    """Return how to sample: as asked, as the files say, as published, or the default."""
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
    """Move outlined networks to their devices and fill them, once everything has been checked."""
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
    """Spread an outlined network over its devices and fill it, once everything has been checked."""
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
    """Raise unless the files hold what the network takes, and nothing else of consequence."""
    places = packing.places(network, family.tensor_map(network))
    spare = {**SPARE, **family.spare}
    if network.unembedding is not None:
        check_tensors(places, shards, spare)
        return
    check_tensors(places, shards, {**spare, family.head: "the head is the embedding"})
    ((embedding, _),) = dict(family.tensor_map(network))["embedding.weight"]
    check_head(shards, family.head, embedding)


def find_folder(model: str) -> Path:
    """Return the checkpoint folder behind a name, a path or a hub id (downloaded if need be)."""
    return _find(model, ["*.json", "*.safetensors", "*.txt"])


def find_config(model: str) -> Path:
    """Return the config.json behind a name, a path or a hub id; weights are not downloaded."""
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
    """Return a folder, or raise where it holds a pipe or a device: reading one may never end."""
    for path in sorted(folder.iterdir()):
        if path.exists() and not path.is_file() and not path.is_dir():
            raise CheckpointError(f"{path} must be a regular file.")
    return folder


def find_family(config: dict[str, Any], folder: Path) -> Family:
    """Return the family that config.json declares, or raise saying why there is none."""
    architecture = _architecture(config, folder)
    for start, reason in UNFIT.items():
        if architecture.startswith(start):
            raise CheckpointError(
                f"{folder / 'config.json'} declares the architecture {architecture!r}: {reason}, "
                "so nothing can be masked again; choose a masked diffusion model."
            )
    if architecture not in FAMILIES:
        causal = architecture.endswith(_CAUSAL)
        why = (
            "; by its name this one is autoregressive, and nothing can be masked" if causal else ""
        )
        raise CheckpointError(
            f"{folder / 'config.json'} declares the architecture {architecture!r}; "
            f"known are {', '.join(FAMILIES)}{why}."
        )
    return FAMILIES[architecture]


def _architecture(config: dict[str, Any], folder: Path) -> str:
    """Return the first architecture; where none is given, the only one of that model_type."""
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
    except (RuntimeError, OverflowError):  # of torch: more elements than can be counted
        raise CheckpointError(
            f"{folder / 'config.json'} describes a network of a size that cannot be; "
            "download it again."
        ) from None


def checkpoint_name(folder: Path) -> str:
    """Return what a checkpoint is called: its folder, or its repository in the hub's cache."""
    whole = folder.resolve()
    return whole.parent.parent.name if whole.parent.name == "snapshots" else whole.name
