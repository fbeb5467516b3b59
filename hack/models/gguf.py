"""Writes GGUF files, the format that llama.cpp and Ollama read: ggml's docs/gguf.md, version 3, little endian."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

_U32, _I32, _F32, _BOOL, _TEXT, _LIST = 4, 5, 6, 7, 8, 9
_ALIGN = 32
_F32_TENSOR = 0
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
"""Kinds of tokens: `tokenizer.ggml.token_type`."""


@dataclass(frozen=True)
class Tensor:
    """32-bit floats. `shape` has the fastest dimension first; `data` returns its 4 * product(shape) bytes."""

    name: str
    shape: tuple[int, ...]
    data: Callable[[], bytes]

    @property
    def size(self) -> int:
        """Bytes."""
        size = 4
        for length in self.shape:
            size *= length
        return size


def write(file: BinaryIO, metadata: Sequence[bytes], tensors: Sequence[Tensor]) -> None:
    """The whole file, one tensor in memory at a time. `metadata` are pairs made by the functions below."""
    header = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)) + b"".join(metadata))
    offset = 0
    for tensor in tensors:
        dimensions = len(tensor.shape)
        header += _string(tensor.name)
        header += struct.pack(f"<I{dimensions}QIQ", dimensions, *tensor.shape, _F32_TENSOR, offset)
        offset += tensor.size + -tensor.size % _ALIGN
    file.write(bytes(header) + bytes(-len(header) % _ALIGN))
    for tensor in tensors:
        data = tensor.data()
        if len(data) != tensor.size:
            raise ValueError(f"{tensor.name}: {len(data)} bytes instead of {tensor.size}")
        file.write(data + bytes(-len(data) % _ALIGN))


def u32(name: str, value: int) -> bytes:
    """A whole number."""
    return _key(name, _U32) + struct.pack("<I", value)


def f32(name: str, value: float) -> bytes:
    """A 32-bit float."""
    return _key(name, _F32) + struct.pack("<f", value)


def boolean(name: str, value: bool) -> bytes:
    """True or false."""
    return _key(name, _BOOL) + bytes([value])


def text(name: str, value: str) -> bytes:
    """A string."""
    return _key(name, _TEXT) + _string(value)


def texts(name: str, values: Iterable[str]) -> bytes:
    """A list of strings."""
    return _list(name, _TEXT, [_string(value) for value in values])


def i32s(name: str, values: Iterable[int]) -> bytes:
    """A list of whole numbers."""
    return _list(name, _I32, [struct.pack("<i", value) for value in values])


def f32s(name: str, values: Iterable[float]) -> bytes:
    """A list of 32-bit floats."""
    return _list(name, _F32, [struct.pack("<f", value) for value in values])


def _string(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _key(name: str, kind: int) -> bytes:
    return _string(name) + struct.pack("<I", kind)


def _list(name: str, kind: int, items: Sequence[bytes]) -> bytes:
    return _key(name, _LIST) + struct.pack("<IQ", kind, len(items)) + b"".join(items)
