"""A Whisper of random weights in CTranslate2's format: it loads and decodes as a real one does, and what it says means
nothing. The tokens are a few words, Whisper's control tokens and its timestamps.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from ctranslate2.specs import whisper_spec
from tokenizers import decoders, models, pre_tokenizers

WIDTH, HEADS, MELS = 16, 2, 80
WORDS = ["Ġthe", "Ġbackup", "Ġof", "Ġgpu", "Ġnode", "Ġfailed", "Ġtoday", "Ġreview", "Ġ-", "Ġ'", "Ġ♪"]
LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())
CONTROL = [
    "<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|cs|>", "<|translate|>", "<|transcribe|>",
    "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>",
]  # fmt: skip
TIMES = [f"<|{number / 50:.2f}|>" for number in range(1501)]


def write(folder: Path, seed: int = 7) -> Path:
    """The model's directory."""
    dice = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    spec = whisper_spec.WhisperSpec(1, HEADS, 1, HEADS)
    vocabulary = [*WORDS, *LETTERS, *CONTROL, *TIMES]

    def some(*shape: int) -> Any:
        return (dice.standard_normal(shape) * 0.3).astype(np.float32)

    def linear(to: Any, rows: int, columns: int) -> None:
        to.weight, to.bias = some(rows, columns), np.zeros(rows, np.float32)

    def norm(to: Any) -> None:
        to.gamma, to.beta = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)

    def layer(to: Any, attentions: list[tuple[Any, list[int]]]) -> None:
        for attention, outputs in attentions:
            norm(attention.layer_norm)
            for one, rows in zip(attention.linear, outputs, strict=True):
                linear(one, rows, WIDTH)
        norm(to.ffn.layer_norm)
        linear(to.ffn.linear_0, WIDTH, WIDTH)
        linear(to.ffn.linear_1, WIDTH, WIDTH)

    encoder, decoder = spec.encoder, spec.decoder
    encoder.conv1.weight, encoder.conv1.bias = some(WIDTH, MELS, 3), np.zeros(WIDTH, np.float32)
    encoder.conv2.weight, encoder.conv2.bias = some(WIDTH, WIDTH, 3), np.zeros(WIDTH, np.float32)
    encoder.position_encodings.encodings = some(1500, WIDTH)
    norm(encoder.layer_norm)
    layer(encoder.layer[0], [(encoder.layer[0].self_attention, [3 * WIDTH, WIDTH])])
    decoder.embeddings.weight = some(len(vocabulary), WIDTH)
    decoder.position_encodings.encodings = some(448, WIDTH)
    norm(decoder.layer_norm)
    one = decoder.layer[0]
    layer(one, [(one.self_attention, [3 * WIDTH, WIDTH]), (one.attention, [WIDTH, 2 * WIDTH, WIDTH])])
    decoder.projection.weight = decoder.embeddings.weight
    spec.register_vocabulary(vocabulary)
    spec.config.suppress_ids = []
    spec.config.suppress_ids_begin = []
    spec.config.lang_ids = [vocabulary.index(token) for token in ("<|en|>", "<|de|>", "<|cs|>")]
    spec.config.alignment_heads = [(0, 0)]
    spec.validate()
    spec.save(str(folder))
    ids = {token: number for number, token in enumerate(vocabulary)}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=ids, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([*CONTROL, *TIMES])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "preprocessor_config.json").write_text(json.dumps({"feature_size": MELS}))
    return folder
