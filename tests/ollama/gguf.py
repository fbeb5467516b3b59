"""A GGUF file of a tiny Llama with random weights, the same for the same seed.

Source: llama.cpp's tensors of architecture `llama`.
"""

from __future__ import annotations

import io
import random
from array import array
from collections.abc import Sequence
from functools import partial

from hack.models import gguf

_LETTERS = "▁abcdefghijklmnopqrstuvwxyz"


def tiny(seed: int, *, width: int = 64, layers: int = 1, context: int = 4096, embeds: bool = False) -> bytes:
    """The file's bytes. `width` is a multiple of 32; a model that `embeds` does nothing else."""
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
    metadata = [
        gguf.text("general.architecture", "llama"),
        gguf.text("general.name", f"tiny-{seed}"),
        gguf.u32("general.file_type", 0),
        gguf.u32("llama.context_length", context),
        gguf.u32("llama.embedding_length", width),
        gguf.u32("llama.block_count", layers),
        gguf.u32("llama.feed_forward_length", hidden),
        gguf.u32("llama.attention.head_count", heads),
        gguf.u32("llama.attention.head_count_kv", heads),
        gguf.u32("llama.rope.dimension_count", width // heads),
        gguf.u32("llama.vocab_size", len(tokens)),
        gguf.f32("llama.attention.layer_norm_rms_epsilon", 1e-5),
        gguf.text("tokenizer.ggml.model", "llama"),
        gguf.texts("tokenizer.ggml.tokens", tokens),
        gguf.f32s("tokenizer.ggml.scores", [-float(number) for number in range(len(tokens))]),
        gguf.i32s("tokenizer.ggml.token_type", kinds),
        gguf.u32("tokenizer.ggml.unknown_token_id", 0),
        gguf.u32("tokenizer.ggml.bos_token_id", 1),
        gguf.u32("tokenizer.ggml.eos_token_id", 2),
        gguf.boolean("tokenizer.ggml.add_bos_token", True),
    ]
    if embeds:
        metadata.append(gguf.u32("llama.pooling_type", 1))  # the mean
    file = io.BytesIO()
    tensors = [gguf.Tensor(name, shape, partial(_numbers, chance, shape)) for name, shape in shapes.items()]
    gguf.write(file, metadata, tensors)
    return file.getvalue()


def _vocabulary() -> tuple[list[str], list[int]]:
    special = [("<unk>", gguf.UNKNOWN), ("<s>", gguf.CONTROL), ("</s>", gguf.CONTROL)]
    raw = [(f"<0x{number:02X}>", gguf.BYTE) for number in range(256)]
    pairs = special + raw + [(letter, gguf.NORMAL) for letter in _LETTERS]
    return [token for token, _ in pairs], [kind for _, kind in pairs]


def _numbers(chance: random.Random, shape: Sequence[int]) -> bytes:
    if len(shape) == 1:
        return array("f", [1.0] * shape[0]).tobytes()
    spread = shape[0] ** -0.5
    return array("f", [chance.gauss(0, spread) for _ in range(shape[0] * shape[1])]).tobytes()
