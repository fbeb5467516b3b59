"""Writes the GGUF file of a sentence transformer of architecture BERT, from its folder with safetensors.

What Ollama expects is in its convert/convert_bert.go and tokenizer/wordpiece.go: names of tensors, mean pooling, and a
WordPiece vocabulary in which words begin with a mark and pieces within words have lost theirs.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from hack.models import gguf

_WORD = "\u2581"
_INSIDE = "##"
_MEAN = 1  # llama.cpp's LLAMA_POOLING_TYPE_MEAN
_UNUSED = ("embeddings.position_ids", "pooler.")
_NAMES = {  # longer ones first where one begins with another
    "embeddings.word_embeddings": "token_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.LayerNorm": "token_embd_norm",
    "encoder.layer": "blk",
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
_SPECIAL = {
    "[CLS]": ("cls", "bos"),
    "[SEP]": ("seperator", "eos"),  # llama.cpp spells it so
    "[PAD]": ("padding",),
    "[UNK]": ("unknown",),
    "[MASK]": ("mask",),
}
"""Token: what it is called in `tokenizer.ggml.NAME_token_id`."""


@dataclass(frozen=True)
class _Weights:
    """A safetensors file: 8 bytes with the header's length, the header as JSON, then the numbers."""

    path: Path

    def tensors(self) -> list[gguf.Tensor]:
        """Those that are needed, under GGUF's names. Raises ValueError for numbers that are no 32-bit floats."""
        with self.path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header: dict[str, Any] = json.loads(file.read(length))
        listed = []
        for name, entry in header.items():
            if name == "__metadata__" or name.startswith(_UNUSED):
                continue
            if entry["dtype"] != "F32":
                raise ValueError(f"{name} has numbers of type {entry['dtype']}, not F32")
            begin, end = entry["data_offsets"]
            read = partial(self._read, 8 + length + begin, end - begin)
            listed.append(gguf.Tensor(renamed(name), tuple(reversed(entry["shape"])), read))
        return listed

    def _read(self, offset: int, size: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(offset)
            return file.read(size)


def write(folder: Path, file: BinaryIO, name: str) -> None:
    """Into `file`, from `folder` with config.json, tokenizer.json and model.safetensors."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    vocabulary: dict[str, int] = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    gguf.write(file, metadata(config, vocabulary, name), _Weights(folder / "model.safetensors").tensors())


def metadata(config: Mapping[str, Any], vocabulary: Mapping[str, int], name: str) -> list[bytes]:
    """GGUF's pairs, from transformers' config and {piece: number}."""
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    return [
        gguf.text("general.architecture", "bert"),
        gguf.text("general.name", name),
        gguf.u32("general.file_type", 0),
        gguf.u32("bert.block_count", config["num_hidden_layers"]),
        gguf.u32("bert.context_length", config["max_position_embeddings"]),
        gguf.u32("bert.embedding_length", config["hidden_size"]),
        gguf.u32("bert.feed_forward_length", config["intermediate_size"]),
        gguf.u32("bert.attention.head_count", config["num_attention_heads"]),
        gguf.f32("bert.attention.layer_norm_epsilon", config["layer_norm_eps"]),
        gguf.boolean("bert.attention.causal", False),
        gguf.u32("bert.pooling_type", _MEAN),
        gguf.boolean("bert.normalize_embeddings", True),
        gguf.text("tokenizer.ggml.model", "bert"),
        gguf.u32("tokenizer.ggml.token_type_count", config["type_vocab_size"]),
        gguf.texts("tokenizer.ggml.tokens", map(marked, pieces)),
        gguf.i32s("tokenizer.ggml.token_type", map(_kind, pieces)),
        *(
            gguf.u32(f"tokenizer.ggml.{role}_token_id", vocabulary[token])
            for token, roles in _SPECIAL.items()
            for role in roles
        ),
    ]


def marked(piece: str) -> str:
    """A piece of BERT's vocabulary in GGUF's: the mark stands before the pieces that begin a word."""
    if piece.startswith("[") and piece.endswith("]"):
        return piece
    return piece.removeprefix(_INSIDE) if piece.startswith(_INSIDE) else _WORD + piece


def renamed(tensor: str) -> str:
    """GGUF's name of a tensor: `encoder.layer.0.attention.self.query.bias` is `blk.0.attn_q.bias`."""
    for theirs, ours in _NAMES.items():
        tensor = tensor.replace(theirs, ours)
    return tensor


def _kind(piece: str) -> int:
    if piece == "[UNK]":
        return gguf.UNKNOWN
    return gguf.CONTROL if piece in _SPECIAL else gguf.NORMAL
