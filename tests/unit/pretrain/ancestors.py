"""Random Llama and Qwen models of two layers, in the hub's layout and as GGUF files.

The folders are written by transformers, the files by gguf's own writer, with q and k of a Llama
permuted as llama.cpp's converter does.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import tokenizers
import torch
from gguf.quants import quantize
from tokenizers import AddedToken, decoders, models, pre_tokenizers

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<reponame>", "<file_sep>"]
PAD, START, END, REPO, FILE = range(5)
MERGES = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("i", "n"), ("1", "2")]
WORDS = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(m) for m in MERGES)]
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SHAPE: dict[str, Any] = {
    "vocab_size": len(WORDS), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5, "eos_token_id": END, "pad_token_id": END, "bos_token_id": START,
}  # fmt: skip
THETA = 1000.0
LAYER = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
}  # fmt: skip
OUTSIDE = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"
}  # fmt: skip


def backend() -> tokenizers.Tokenizer:
    """Return a tokenizer like SmolLM2's: digits alone, bytes, a few merges."""
    made = tokenizers.Tokenizer(
        models.BPE(vocab={word: i for i, word in enumerate(WORDS)}, merges=MERGES)
    )
    digits = pre_tokenizers.Digits(individual_digits=True)
    in_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    made.pre_tokenizer = pre_tokenizers.Sequence([digits, in_bytes])
    made.decoder = decoders.ByteLevel()
    made.add_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIAL])
    return made


@cache
def reference(kind: str, tied: bool = True) -> Any:
    """Return the model of transformers, its weights large enough to show in every logit."""
    import transformers

    name = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}[kind]
    rotary = {"rope_type": "default", "rope_theta": THETA}
    extra = {"head_dim": 16} if kind == "qwen3" else {}
    config = getattr(transformers, f"{name}Config")(
        **SHAPE, rope_parameters=rotary, tie_word_embeddings=tied, **extra
    )
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(noise * 0.3 if parameter.dim() == 2 else 1 + 0.1 * noise)
    return model


def write_hub(folder: Path, kind: str, *, tied: bool = True, **shards: Any) -> Path:
    """Write a model and its tokenizer as transformers does."""
    from transformers import PreTrainedTokenizerFast

    reference(kind, tied).save_pretrained(folder, **shards)
    PreTrainedTokenizerFast(
        tokenizer_object=backend(), eos_token="<|im_end|>", pad_token="<|im_end|>",
        bos_token="<|im_start|>", chat_template=TEMPLATE,
    ).save_pretrained(folder)  # fmt: skip
    return folder


def permuted(rows: np.ndarray, heads: int) -> np.ndarray:
    """Return q or k as the converter writes it: the halves of each head become pairs."""
    split = rows.reshape(heads, 2, len(rows) // heads // 2, rows.shape[1])
    return split.swapaxes(1, 2).reshape(rows.shape)


def write_gguf(
    path: Path, kind: str, *, tied: bool = True, quantised: bool = False, **changes: Any
) -> Path:
    """Write the same model as a GGUF file; `changes` replace facts of its metadata.

    Of these `facts` are any keys as the file has them; None leaves one out.
    """
    model = reference(kind, tied)
    c, writer = model.config, gguf.GGUFWriter(path, changes.pop("architecture", kind))
    writer.add_block_count(c.num_hidden_layers)
    writer.add_context_length(c.max_position_embeddings)
    writer.add_embedding_length(c.hidden_size)
    writer.add_feed_forward_length(c.intermediate_size)
    writer.add_head_count(c.num_attention_heads)
    writer.add_head_count_kv(c.num_key_value_heads)
    writer.add_rope_freq_base(THETA)
    writer.add_layer_norm_rms_eps(c.rms_norm_eps)
    if kind == "qwen3":
        writer.add_key_length(c.head_dim)
    writer.add_tokenizer_model(changes.pop("tokenizer", "gpt2"))
    writer.add_tokenizer_pre(changes.pop("pieces", "smollm"))
    writer.add_token_list(WORDS)
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(WORDS) - len(SPECIAL)))
    writer.add_token_merges([" ".join(pair) for pair in MERGES])
    writer.add_bos_token_id(START)
    writer.add_eos_token_id(END)
    writer.add_pad_token_id(END)
    writer.add_chat_template(TEMPLATE)
    for name, tensor in _tensors(model, kind).items():
        if name not in changes.get("without", ()):
            _add(writer, name, tensor, quantised)
    for name, tensor in changes.get("beside", {}).items():
        writer.add_tensor(name, tensor)
    for name, value in changes.get("facts", {}).items():
        _state(writer, name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _state(writer: gguf.GGUFWriter, name: str, value: Any) -> None:
    writer.kv_data[0].pop(name, None)
    if isinstance(value, list):
        writer.add_array(name, value)
    elif value is not None:
        add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        add[type(value)](name, value)


def _tensors(model: Any, kind: str) -> dict[str, np.ndarray]:
    names = {f"{hub}.weight": f"{ours}.weight" for ours, hub in OUTSIDE.items()}
    for layer in range(model.config.num_hidden_layers):
        for ours, hub in LAYER.items():
            for end in ("weight", "bias"):
                names[f"model.layers.{layer}.{hub}.{end}"] = f"blk.{layer}.{ours}.{end}"
    out = {}
    for hub, tensor in model.state_dict().items():
        if hub == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        array = tensor.numpy()
        for part, heads in (("q_proj", 4), ("k_proj", 2)):
            if kind == "llama" and part in hub:
                array = permuted(array, heads)
        out[names[hub]] = array
    return out


def _add(writer: gguf.GGUFWriter, name: str, array: np.ndarray, quantised: bool) -> None:
    if quantised and array.ndim == 2:
        kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(name, quantize(array, kind), raw_dtype=kind)
    else:
        writer.add_tensor(name, np.ascontiguousarray(array))


def write_rows(path: Path, num: int = 24, **more: Any) -> Path:
    """Write rows whose responses a small model can learn."""
    rows = [
        {"prompt": f"Add {i % 5} and {i % 3}.", "response": f"It is {i % 5 + i % 3}.", **more}
        for i in range(num)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
