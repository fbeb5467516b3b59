"""A GGUF file of a tiny Llama with random weights, the same for the same seed.

Source: ggml's docs/gguf.md (version 3) and llama.cpp's tensors of architecture `llama`.
"""

from __future__ import annotations

import random
import struct
from array import array
from collections.abc import Sequence

_U32, _F32, _BOOL, _TEXT, _LIST = 4, 6, 7, 8, 9
_INT32 = 5
_ALIGN = 32
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6
_LETTERS = "▁abcdefghijklmnopqrstuvwxyz"


def tiny(seed: int, *, width: int = 64, layers: int = 1, context: int = 4096) -> bytes:
    """The file's bytes. `width` is a multiple of 32."""
    chance, hidden, heads = random.Random(seed), 2 * width, 2
    tokens, kinds = _vocabulary()
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (width, len(tokens))}
    for layer in range(layers):
        at = f"blk.{layer}."
        shapes |= {f"{at}{name}.weight": (width, width) for name in ("attn_q", "attn_k", "attn_v", "attn_output")}
        shapes |= {f"{at}attn_norm.weight": (width,), f"{at}ffn_norm.weight": (width,)}
        shapes |= {f"{at}ffn_gate.weight": (width, hidden), f"{at}ffn_up.weight": (width, hidden)}
        shapes |= {f"{at}ffn_down.weight": (hidden, width)}
    shapes |= {"output_norm.weight": (width,), "output.weight": (width, len(tokens))}
    facts = [
        _text("general.architecture", "llama"),
        _text("general.name", f"tiny-{seed}"),
        _u32("general.file_type", 0),
        _u32("llama.context_length", context),
        _u32("llama.embedding_length", width),
        _u32("llama.block_count", layers),
        _u32("llama.feed_forward_length", hidden),
        _u32("llama.attention.head_count", heads),
        _u32("llama.attention.head_count_kv", heads),
        _u32("llama.rope.dimension_count", width // heads),
        _u32("llama.vocab_size", len(tokens)),
        _key("llama.attention.layer_norm_rms_epsilon", _F32) + struct.pack("<f", 1e-5),
        _text("tokenizer.ggml.model", "llama"),
        _list("tokenizer.ggml.tokens", _TEXT, [_string(token) for token in tokens]),
        _list("tokenizer.ggml.scores", _F32, [struct.pack("<f", -float(number)) for number in range(len(tokens))]),
        _list("tokenizer.ggml.token_type", _INT32, [struct.pack("<i", kind) for kind in kinds]),
        _u32("tokenizer.ggml.unknown_token_id", 0),
        _u32("tokenizer.ggml.bos_token_id", 1),
        _u32("tokenizer.ggml.eos_token_id", 2),
        _key("tokenizer.ggml.add_bos_token", _BOOL) + b"\x01",
    ]
    listed, data = bytearray(), bytearray()
    for name, shape in shapes.items():
        listed += _string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        data += _numbers(chance, shape)
        data += bytes(-len(data) % _ALIGN)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(facts)) + b"".join(facts) + bytes(listed)
    return head + bytes(-len(head) % _ALIGN) + bytes(data)


def _vocabulary() -> tuple[list[str], list[int]]:
    special = [("<unk>", _UNKNOWN), ("<s>", _CONTROL), ("</s>", _CONTROL)]
    raw = [(f"<0x{number:02X}>", _BYTE) for number in range(256)]
    pairs = special + raw + [(letter, _NORMAL) for letter in _LETTERS]
    return [token for token, _ in pairs], [kind for _, kind in pairs]


def _numbers(chance: random.Random, shape: Sequence[int]) -> bytes:
    if len(shape) == 1:
        return array("f", [1.0] * shape[0]).tobytes()
    spread = shape[0] ** -0.5
    return array("f", [chance.gauss(0, spread) for _ in range(shape[0] * shape[1])]).tobytes()


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _key(name: str, kind: int) -> bytes:
    return _string(name) + struct.pack("<I", kind)


def _u32(name: str, value: int) -> bytes:
    return _key(name, _U32) + struct.pack("<I", value)


def _text(name: str, value: str) -> bytes:
    return _key(name, _TEXT) + _string(value)


def _list(name: str, kind: int, items: Sequence[bytes]) -> bytes:
    return _key(name, _LIST) + struct.pack("<IQ", kind, len(items)) + b"".join(items)
