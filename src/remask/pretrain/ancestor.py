"""The autoregressive model that a diffusion model is made of: its shape, its weights, its words.

A folder in the hub's layout, a hub id or a GGUF file, of a Llama, a Qwen2 or a Qwen3. A model that
was adapted before may be adapted further.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
import torch
from torch import Tensor

from remask.denoisers import a2d
from remask.denoisers.load import check_weights, find_folder, read_config
from remask.denoisers.native import Family, Network, stacked
from remask.denoisers.qwen import CHAT, SYSTEM_TURN, Qwen
from remask.denoisers.special_ids import PROMPT, Sources, TokenSpelling, with_chat
from remask.denoisers.tokenizer import read_backend, read_json, read_sources
from remask.denoisers.weights import WeightFiles, check_folder, fill, refuse_quantised
from remask.errors import CheckpointError, SettingsError
from remask.pretrain.chat import Chat, read_chat
from remask.pretrain.gguf_file import GgufFile
from remask.pretrain.gguf_tokenizer import build_tokenizer
from remask.records.text_file import read_text

# What an autoregressive architecture becomes.
FAMILIES: Mapping[str, Family] = {
    "LlamaForCausalLM": a2d.LLAMA_FAMILY,
    "Qwen2ForCausalLM": a2d.QWEN2_FAMILY,
    "Qwen3ForCausalLM": a2d.FAMILY,
    **{one.architecture: one for one in (a2d.LLAMA_FAMILY, a2d.QWEN2_FAMILY, a2d.FAMILY)},
}
_PLAIN = f"Question: {PROMPT}\nAnswer:"  # for a model that nobody taught to chat


@dataclass(frozen=True, kw_only=True, eq=False)
class Ancestor:
    """What an adaptation starts from."""

    name: str
    family: Family  # of what it becomes
    config: Mapping[str, Any]  # its own config.json, or what one would say
    backend: tokenizers.Tokenizer
    special_tokens: Sources  # who names its special tokens
    chat: Chat
    write: Callable[[Network], None]  # copies its weights into a network

    @property
    def is_adapted(self) -> bool:
        """Whether it is a diffusion model already, with a mask token of its own."""
        return _is_adapted(self.config, self.family)

    def network(self, *, shifted: bool | None) -> Qwen:
        """Return the network, its weights on the CPU in float32.

        Where `shifted` is not said, an adapted model keeps its own and an ancestor is shifted.
        """
        with torch.device("meta"):  # whose weights nobody draws
            network = self.family.build(self.config)
        if not isinstance(network, Qwen) or network.block_size is not None:
            raise CheckpointError(
                f"{self.name} writes in blocks; only models that attend to everything are adapted."
            )
        if self.is_adapted and shifted not in (None, network.shifted):
            flag = "--no-shifted" if shifted is False else "--shifted"
            raise SettingsError(
                f"shifted is {shifted}, and {self.name} was adapted with {network.shifted}; "
                f"leave {flag} out."
            )
        if not self.is_adapted:
            network.shifted = shifted is not False
        network.to_empty(device="cpu")
        self.write(network)
        return network


def read_ancestor(source: str, template: str = "") -> Ancestor:
    """Return the model of a folder, a hub id or a GGUF file; `template` takes its chat's place."""
    path = Path(source)
    if path.suffix.lower() == ".gguf":
        if not path.is_file():
            raise CheckpointError(f"source {source} is no file; name a GGUF file or a folder.")
        return _of_file(GgufFile.open(path), template)
    return _of_folder(find_folder(source), source, template)


def _is_adapted(config: Mapping[str, Any], family: Family) -> bool:
    return config.get("architectures") == [family.architecture]


def _family(config: Mapping[str, Any], where: str) -> Family:
    declared = config.get("architectures")
    architecture = declared[0] if isinstance(declared, list) and declared else declared
    if not isinstance(architecture, str) or architecture not in FAMILIES:
        raise CheckpointError(
            f"{where} declares the architecture {architecture!r}; what can be adapted is "
            f"{', '.join(FAMILIES)}."
        )
    return FAMILIES[architecture]


def _of_folder(folder: Path, name: str, template: str) -> Ancestor:
    check_folder(folder)
    config = read_json(folder / "config.json")
    family = _family(config, str(folder / "config.json"))
    if _is_adapted(config, family):
        config = read_config(folder)
    refuse_quantised(config)
    backend, shards = read_backend(folder), WeightFiles(folder)
    sources = read_sources(folder, config, backend)

    def write(network: Network) -> None:
        check_weights(network, family, shards)
        fill([stacked(network, family.tensor_map(network))], shards)

    said = _stated_chat(folder, sources) if not template else ""
    return Ancestor(
        name=name, family=family, config=config, backend=backend, special_tokens=sources,
        write=write, chat=_chat(family, config, backend, said, template, sources, name),
    )  # fmt: skip


def _of_file(file: GgufFile, template: str) -> Ancestor:
    config = file.config()
    family = _family(config, str(file.path))
    backend = build_tokenizer(file.facts, str(file.path))
    bos = file.facts.get("tokenizer.ggml.bos_token_id")
    named = {"bos_token": backend.id_to_token(bos)} if isinstance(bos, int) else {}
    sources = Sources(
        config=config, generation={}, tokenizer=named, tokens={}, token_id=backend.token_to_id
    )

    def write(network: Network) -> None:
        heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        places = stacked(network, family.tensor_map(network))
        _copy(places, file.tensors(heads, kv_heads), str(file.path))

    said = str(file.facts.get("tokenizer.chat_template") or "") if not template else ""
    return Ancestor(
        name=file.path.name, family=family, config=config, backend=backend, special_tokens=sources,
        write=write, chat=_chat(family, config, backend, said, template, sources, str(file.path)),
    )  # fmt: skip


@torch.no_grad()
def _copy(places: Mapping[str, Tensor], tensors: Iterable[tuple[str, Tensor]], where: str) -> None:
    """Copy tensors to their places, or raise where one is missing, one too many or misshapen."""
    missing = set(places)
    for name, tensor in tensors:
        place = places.get(name)
        if place is None:
            raise CheckpointError(
                f"{where} holds the tensor {name}, which no part of the network takes; "
                "it is of another model than it says."
            )
        if place.shape != tensor.shape or not tensor.isfinite().all():
            fault = f"has shape {tuple(tensor.shape)}, not {tuple(place.shape)}"
            fault = fault if place.shape != tensor.shape else "holds NaN or infinity"
            raise CheckpointError(f"{where}: tensor {name} {fault}; download it again.")
        place.copy_(tensor)
        missing.discard(name)
    if missing:
        raise CheckpointError(f"{where} lacks the tensor {min(missing)}; download it again.")


def _stated_chat(folder: Path, sources: Sources) -> str:
    """Return the chat template, in Jinja, of a folder's files; "" where it has none."""
    path = folder / "chat_template.jinja"
    if path.exists():
        return read_text(path, CheckpointError)
    stated = sources.tokenizer.get("chat_template")
    if isinstance(stated, list):  # several by name
        named = {one.get("name"): one.get("template") for one in stated if isinstance(one, dict)}
        stated = named.get("default")
    return stated if isinstance(stated, str) else ""


def _chat(
    family: Family,
    config: Mapping[str, Any],
    backend: tokenizers.Tokenizer,
    stated: str,
    template: str,
    sources: Sources,
    name: str,
) -> Chat:
    """Return how the model will be spoken to: as asked, as it was, or as its family is."""
    if template:
        return Chat(template=template)
    if config.get("chat") is not None:
        return _spoken(with_chat(family, config))
    if stated:
        bos, eos = (_spelled(sources, backend, role) for role in ("bos", "eos"))
        return read_chat(stated, bos=bos, eos=eos, where=name)
    for chat in (_spoken(family), Chat(template=CHAT, system=SYSTEM_TURN)):
        opening = chat.template.partition("|>")[0] + "|>"
        if backend.token_to_id(opening) is not None:
            return chat
    return Chat(template=_PLAIN)


def _spoken(spelling: TokenSpelling) -> Chat:
    return Chat(
        template=spelling.template, system=spelling.system, primer=spelling.primer,
        trims=spelling.trims,
    )  # fmt: skip


def _spelled(sources: Sources, backend: tokenizers.Tokenizer, role: str) -> str:
    ids = sources.first(role)
    return str(backend.id_to_token(ids[0])) if ids else ""
