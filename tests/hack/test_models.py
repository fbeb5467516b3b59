"""Small real models: what their packages hold becomes files that Ollama reads."""

from __future__ import annotations

import io
import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from hack.cluster import errors
from hack.models import bert, catalogue, gguf, server, store, wheels

_CONFIG = {"num_hidden_layers": 1, "max_position_embeddings": 512, "hidden_size": 2, "intermediate_size": 8,
           "num_attention_heads": 1, "layer_norm_eps": 1e-12, "type_vocab_size": 2}  # fmt: skip
_VOCABULARY = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "rack": 5, "##s": 6, "#": 7}


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("embeddings.word_embeddings.weight", "token_embd.weight"),
        ("embeddings.token_type_embeddings.weight", "token_types.weight"),
        ("embeddings.LayerNorm.bias", "token_embd_norm.bias"),
        ("encoder.layer.5.attention.self.query.weight", "blk.5.attn_q.weight"),
        ("encoder.layer.5.attention.output.dense.bias", "blk.5.attn_output.bias"),
        ("encoder.layer.5.attention.output.LayerNorm.weight", "blk.5.attn_output_norm.weight"),
        ("encoder.layer.0.intermediate.dense.weight", "blk.0.ffn_up.weight"),
        ("encoder.layer.0.output.dense.weight", "blk.0.ffn_down.weight"),
        ("encoder.layer.0.output.LayerNorm.bias", "blk.0.layer_output_norm.bias"),
    ],
)
def test_tensors_get_the_names_that_ollama_looks_for(theirs: str, ours: str) -> None:
    assert bert.renamed(theirs) == ours


def test_words_begin_with_a_mark_and_pieces_within_words_have_none() -> None:
    assert [bert.marked(piece) for piece in _VOCABULARY] == [
        "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "\u2581rack", "s", "\u2581#",
    ]  # fmt: skip


def _safetensors(tensors: dict[str, tuple[str, tuple[int, ...], bytes]]) -> bytes:
    header, data = dict[str, Any](__metadata__={"format": "pt"}), b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    encoded = json.dumps(header).encode()
    return struct.pack("<Q", len(encoded)) + encoded + data


def _folder(tmp_path: Path, dtype: str = "F32") -> Path:
    words = struct.pack("<16f", *range(16))
    content = _safetensors(
        {
            "embeddings.position_ids": ("I64", (1, 2), bytes(16)),
            "embeddings.word_embeddings.weight": (dtype, (8, 2), words),
            "pooler.dense.bias": ("F32", (2,), bytes(8)),
            "embeddings.LayerNorm.bias": ("F32", (2,), struct.pack("<2f", 0.5, -0.5)),
        }
    )
    (tmp_path / "model.safetensors").write_bytes(content)
    (tmp_path / "config.json").write_text(json.dumps(_CONFIG))
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": _VOCABULARY}}))
    return tmp_path


def test_a_sentence_transformer_is_written_as_gguf(tmp_path: Path) -> None:
    file = io.BytesIO()
    bert.write(_folder(tmp_path), file, "tiny")
    content = file.getvalue()
    magic, version, tensors, pairs = struct.unpack_from("<4sIQQ", content)
    assert (magic, version, tensors) == (b"GGUF", 3, 2)
    assert pairs == len(bert.metadata(_CONFIG, _VOCABULARY, "tiny"))
    for pair in (
        gguf.u32("bert.pooling_type", 1),
        gguf.u32("bert.embedding_length", 2),
        gguf.texts("tokenizer.ggml.tokens", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "▁rack", "s", "▁#"]),
        gguf.i32s("tokenizer.ggml.token_type", [3, 2, 3, 3, 3, 1, 1, 1]),
        gguf.u32("tokenizer.ggml.cls_token_id", 2),
        gguf.u32("tokenizer.ggml.seperator_token_id", 3),
    ):
        assert content.count(pair) == 1
    # The fastest dimension stands first, and each tensor's numbers begin at a multiple of 32.
    first, second = b"token_embd.weight", b"token_embd_norm.bias"
    assert content[content.index(first) + len(first) :][:32] == struct.pack("<IQQIQ", 2, 2, 8, 0, 0)
    assert content[content.index(second) + len(second) :][:24] == struct.pack("<IQIQ", 1, 2, 0, 64)
    assert content.endswith(struct.pack("<16f", *range(16)) + struct.pack("<2f", 0.5, -0.5) + bytes(24))


@pytest.mark.parametrize(
    ("pair", "type_and_value"),
    [
        # The types of values in ggml's docs/gguf.md: 4 UINT32, 5 INT32, 6 FLOAT32, 7 BOOL, 8 STRING, 9 ARRAY.
        (gguf.u32("key", 258), b"\x04\0\0\0" b"\x02\x01\0\0"),
        (gguf.f32("key", 1.0), b"\x06\0\0\0" b"\0\0\x80\x3f"),
        (gguf.boolean("key", True), b"\x07\0\0\0" b"\x01"),
        (gguf.boolean("key", False), b"\x07\0\0\0" b"\0"),
        # A string: its length in 8 bytes, and its UTF-8.
        (gguf.text("key", "\u00e9"), b"\x08\0\0\0" b"\x02\0\0\0\0\0\0\0" b"\xc3\xa9"),
        # An array: the type of its items, their number in 8 bytes, and the items.
        (
            gguf.texts("key", ["a", ""]),
            b"\x09\0\0\0" b"\x08\0\0\0" b"\x02\0\0\0\0\0\0\0"
            b"\x01\0\0\0\0\0\0\0" b"a" b"\0\0\0\0\0\0\0\0",
        ),
        (
            gguf.i32s("key", [1, -2]),
            b"\x09\0\0\0" b"\x05\0\0\0" b"\x02\0\0\0\0\0\0\0" b"\x01\0\0\0" b"\xfe\xff\xff\xff",
        ),
        (
            gguf.f32s("key", [-2.0]),
            b"\x09\0\0\0" b"\x06\0\0\0" b"\x01\0\0\0\0\0\0\0" b"\0\0\0\xc0",
        ),
    ],
    ids=["u32", "f32", "true", "false", "text", "texts", "i32s", "f32s"],
)  # fmt: skip
def test_a_pair_has_the_bytes_of_the_specification(pair: bytes, type_and_value: bytes) -> None:
    assert pair == b"\x03\0\0\0\0\0\0\0" + b"key" + type_and_value


def test_numbers_of_another_type_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"word_embeddings.weight has numbers of type BF16"):
        bert.write(_folder(tmp_path, "BF16"), io.BytesIO(), "tiny")


@pytest.mark.parametrize("model", catalogue.ALL.values(), ids=list(catalogue.ALL))
def test_each_package_is_locked_with_a_hash_and_no_index_host(model: catalogue.Model) -> None:
    lines = wheels.lock(model.lock).read_text().splitlines()
    assert all(re.match(r"[a-z0-9-]+==[0-9.]+ \\$|    --hash=sha256:[0-9a-f]{64}( \\)?$", line) for line in lines)
    assert any("==" in line for line in lines)
    assert sum("--hash" in line for line in lines) >= sum("==" in line for line in lines)


def test_a_package_without_its_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.Failure, match=r"0 files model\.zip"):
        wheels.only(tmp_path, "model.zip")


def test_an_empty_cache_lacks_all_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.missing(catalogue.SMALL) == list(catalogue.SMALL)
    assert store.place().is_relative_to(tmp_path)


def test_the_server_has_nothing_of_the_user_s_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", "/elsewhere")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    chosen = server.environment("127.0.0.1:1", tmp_path, num_parallel="2")
    assert chosen["OLLAMA_MODELS"] == str(tmp_path / "models")
    assert (chosen["OLLAMA_HOST"], chosen["OLLAMA_NUM_PARALLEL"]) == ("127.0.0.1:1", "2")
    assert "HTTPS_PROXY" not in chosen
    assert chosen["OLLAMA_NO_CLOUD"] == chosen["OLLAMA_NOPRUNE"] == "1"
