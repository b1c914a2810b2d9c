"""config.json -> the fields of a family's configuration, each of the right kind.

A family lists the keys that shape its network, under the hub's names, the keys that it supports
with one value only, and the keys that its authors' code does not read. Every other key is refused
by name: ignoring a key that changes the computation would give wrong answers without a word.
Rotary embeddings are spelled in three ways, by the age of the library that wrote the file; here
they become one.
"""

from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any

from remask.errors import CheckpointError

_ROTARY = {"rope_theta", "partial_rotary_factor"}
# Above what anybody has built, and below what takes minutes to outline; by how the key ends.
_MOST = {"layers": 1000, "experts": 10_000, "": 10**9}
# Keys that change nothing that a trained network computes: the names, token ids, training,
# dropout, outputs and sampling of the libraries, and what `remask` itself writes.
IGNORED = frozenset(
    """
    _attn_implementation _attn_implementation_autoset _commit_hash _experts_implementation
    _flash_attn_2_enabled _name_or_path architectures attn_implementation auto_map dtype
    is_llama_config max_sequence_length model_max_length model_type tokenizer_class torch_dtype
    transformers.js_config transformers_version unsloth_fixed unsloth_version
    adapted chat
    begin_suppress_tokens bos_token_id decoder_start_token_id eos_token_id forced_bos_token_id
    forced_eos_token_id mask_token_id pad_token_id prefix sep_token_id suppress_tokens unk_token_id
    attention_dropout attention_probs_dropout_prob classifier_dropout embedding_dropout
    hidden_dropout hidden_dropout_prob initializer_range output_dropout residual_dropout
    router_aux_loss_coef router_z_loss_coef
    finetuning_task id2label label2id num_labels output_attentions output_hidden_states
    output_router_logits output_scores problem_type return_dict return_dict_in_generate
    task_specific_params use_cache
    bad_words_ids diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size
    exponential_decay_length_penalty length_penalty max_length min_length no_repeat_ngram_size
    num_beam_groups num_beams num_return_sequences remove_invalid_values repetition_penalty
    temperature top_k top_p typical_p
    chunk_size_feed_forward max_window_layers pretraining_tp tf_legacy_loss torchscript
    """.split()  # noqa: SIM905
)
# Keys of the libraries that change the computation if they are true.
_FALSE = (
    "add_cross_attention", "is_decoder", "is_encoder_decoder", "tie_encoder_decoder",
    "use_bfloat16",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Llama3Rotary:
    """Llama 3's stretched positions: long wavelengths are multiplied by `factor`."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int
    rope_type: str = "llama3"

    def __post_init__(self) -> None:
        if self.low_freq_factor >= self.high_freq_factor:
            raise CheckpointError(
                f"high_freq_factor in config.json must be above low_freq_factor "
                f"({self.low_freq_factor}), got {self.high_freq_factor}."
            )


def read_fields(
    kind: type,
    config: Mapping[str, Any],
    *,
    supported: Mapping[str, Any],
    family: str,
    ignored: Collection[str] = (),
) -> dict[str, Any]:
    """Return the fields of the dataclass `kind` that `config` has, or raise naming the key.

    Args:
        kind: a dataclass of whole numbers, numbers and flags, all above 0 where they are numbers.
        config: config.json.
        supported: keys with the only value that this family supports; a missing key has it.
        family: its name, for the error message.
        ignored: keys beside `IGNORED` that the authors' code does not read, or a caller does.
    """
    names = {field.name for field in fields(kind)}
    config = plain_rotary(config, family, stretches="rope_scaling" in names - supported.keys())
    supported = {**dict.fromkeys(_FALSE, False), **supported}
    for name, only in supported.items():
        value = config.get(name, only)
        if value != only and (value is not None or only is True):  # the authors read null as false
            raise CheckpointError(
                f"config.json sets {name} to {config[name]!r}; "
                f"this {family} implementation supports {only!r} only."
            )
    known_keys = {*names, *supported, *ignored, *IGNORED}
    if config.get("use_sliding_window") is False:
        known_keys.add("sliding_window")  # the width of windows that are switched off
    _refuse_unknown(config, known_keys, family)
    known = {}
    for field in fields(kind):
        value = config.get(field.name)
        if value is not None or field.default is MISSING:
            known[field.name] = _checked(field, value)
    return known


def plain_rotary(
    config: Mapping[str, Any], family: str, *, stretches: bool = False
) -> dict[str, Any]:
    """Return config.json with the contents of `rope_parameters` and `rope_scaling` as plain keys.

    Older files have `rope_theta`, and `rope_scaling` for stretched positions; newer ones put both
    into `rope_parameters`. A family that `stretches` gets Llama 3's settings as a `Llama3Rotary`
    under `rope_scaling`. All other kinds but the default raise.
    """
    plain, stretched = dict(config), set()
    for key in ("rope_parameters", "rope_scaling"):
        said = plain.pop(key, None)
        if said is None:
            continue
        stretched.add(_read_stretching(key, said, family, stretches))
        for name in _ROTARY & {name for name, value in said.items() if value is not None}:
            if plain.get(name) not in (None, said[name]):
                raise CheckpointError(
                    f"config.json gives {name} as {plain[name]!r} and, in {key}, as "
                    f"{said[name]!r}; correct one of them."
                )
            plain[name] = said[name]
    if len(stretched) > 1:
        raise CheckpointError("config.json gives rope_parameters and rope_scaling that differ.")
    return {**plain, "rope_scaling": stretched.pop() if stretched else None}


def _read_stretching(key: str, said: Any, family: str, stretches: bool) -> Llama3Rotary | None:
    """Return Llama 3's settings, None for the default kind, or raise for other kinds."""
    is_object = isinstance(said, Mapping)
    kind = said.get("rope_type", said.get("type", "default")) if is_object else said
    kinds = ("default", "llama3") if stretches else ("default",)
    if not is_object or kind not in kinds:
        raise CheckpointError(
            f"config.json sets {key} to {kind!r}; "
            f"this {family} implementation supports the rope_type {' or '.join(kinds)} only."
        )
    own = [f for f in fields(Llama3Rotary) if kind == "llama3" and f.default is MISSING]
    _refuse_unknown(said, _ROTARY | {"rope_type", "type"} | {f.name for f in own}, family, key)
    known = {field.name: _checked(field, said.get(field.name)) for field in own}
    return Llama3Rotary(**known) if own else None


def _refuse_unknown(
    config: Mapping[str, Any], known: Collection[str], family: str, place: str = ""
) -> None:
    """Raise for the first unknown key that is set; `place` is the key that holds `config`."""
    for name in sorted(config.keys() - known):
        if config[name] is not None:
            raise CheckpointError(
                f"config.json sets {name if name.isidentifier() else repr(name)}"
                f"{place and ' in '}{place} to {config[name]!r:.80}; "
                f"this {family} implementation does not support this key."
            )


def read_block(config: Mapping[str, Any], name: str, default: int | None) -> int | None:
    """Return the block size in config.json, or `default`."""
    value = config.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CheckpointError(
            f"config.json gives {name} as {value!r}; it must be a whole number above 0."
        )
    most = config.get("max_position_embeddings")
    if isinstance(most, int) and value > most:
        raise CheckpointError(
            f"config.json gives {name} as {value}, more than the {most} tokens of "
            "max_position_embeddings; correct one of them."
        )
    return value


def read_flag(config: Mapping[str, Any], name: str) -> bool:
    """Return a flag of config.json; default false."""
    value = config.get(name)
    if value is not None and not isinstance(value, bool):
        raise CheckpointError(f"config.json gives {name} as {value!r}; it must be true or false.")
    return bool(value)


def head_dim(config: Mapping[str, Any]) -> int | None:
    """Return hidden_size / num_attention_heads, or None, which `read_fields` refuses."""
    width, heads = config.get("hidden_size"), config.get("num_attention_heads")
    if isinstance(width, int) and isinstance(heads, int) and heads > 0:
        return width // heads
    return None


def _checked(field: Field[Any], value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    zero = field.metadata.get("zero", False)
    number = number and (0 < value < float("inf") or (zero and value == 0))
    most = next(limit for end, limit in _MOST.items() if field.name.endswith(end))
    if field.type is int and not (number and isinstance(value, int)):
        wanted = "a whole number from 0 up" if zero else "a whole number above 0"
    elif field.type is int and value > most:
        wanted = f"at most {most:,}"
    elif field.type is float and not number:
        wanted = "a number above 0"
    elif field.type is bool and not isinstance(value, bool):
        wanted = "true or false"
    else:
        return value
    raise CheckpointError(f"config.json gives {field.name} as {value!r}; it must be {wanted}.")
