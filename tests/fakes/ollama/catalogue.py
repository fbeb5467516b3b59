"""Which models this server has, and how large they are.

A list (`qwen2.5:7b,qwen3-embedding:8b`) or a YAML/JSON file: a list of names or of objects
{name, size?, kvBytesPerToken?, contextLength?}. Sizes default to what a 4-bit quantisation of that many parameters
weighs.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.fakes.ollama.embedding import minilm
from tests.fakes.ollama.protocol import names, quantity

DEFAULT = (
    "qwen3-coder:30b",
    "qwen2.5:7b",
    "qwen3-embedding:8b",
    "nomic-embed-text:latest",
    "all-minilm:latest",
)
_BYTES_PER_PARAMETER = 0.62  # Q4_K_M: 4.5 bits a weight and some tensors in 6 bits
_FALLBACK_BILLIONS = 7.0
_SMALL_EMBEDDER_BILLIONS = 0.14
_CONTEXT = 32_768
_CONTEXTS = {"qwen3-coder": 262_144}
"""Tokens that a model was trained with, by the name before its colon, as Ollama's library says."""


@dataclass(frozen=True)
class Model:
    """One installed model.

    `size` in bytes, without its KV cache, which is `kv_bytes_per_token` for each token of context.
    """

    name: str
    size: int
    kv_bytes_per_token: int
    context_length: int = _CONTEXT

    @property
    def key(self) -> str:
        return names.canonical(self.name)

    @property
    def embeds(self) -> bool:
        return names.embeds(self.name)

    @property
    def capabilities(self) -> list[str]:
        if self.embeds:
            return ["embedding"]
        return ["completion", "tools", *(["vision"] if names.sees(self.name) else [])]

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.key.encode()).hexdigest()

    @property
    def details(self) -> dict[str, Any]:
        """`details` of /api/tags, /api/ps and /api/show."""
        family = names.family(self.name)
        count = names.billions(self.name) or self.size / _BYTES_PER_PARAMETER / 1e9
        label = f"{count:.1f}B" if count >= 1 else f"{count * 1000:.0f}M"
        return {
            "parent_model": "", "format": "gguf", "family": family, "families": [family],
            "parameter_size": label, "quantization_level": "Q4_K_M",
        }  # fmt: skip

    def window(self, wanted: int | None, usual: int) -> int:
        """The context that a request gets: never less than 4 tokens, nor more than the model was trained with."""
        return min(max(4, usual if wanted is None else wanted), self.context_length)

    def memory(self, num_ctx: int, num_parallel: int) -> int:
        """Bytes that the loaded model takes: weights and one KV cache per parallel slot."""
        return self.size + num_ctx * num_parallel * self.kv_bytes_per_token


class Catalogue:
    """The installed models by their canonical name."""

    def __init__(self, models: list[Model]) -> None:
        self._by_key = {model.key: model for model in models}

    def find(self, name: str) -> Model | None:
        return self._by_key.get(names.canonical(name))

    def remove(self, name: str) -> bool:
        """Delete it, and say whether it was there. What is in memory stays there."""
        return self._by_key.pop(names.canonical(name), None) is not None

    def all(self) -> list[Model]:
        return list(self._by_key.values())


def describe(
    name: str, size: int | None = None, kv_bytes_per_token: int | None = None, context_length: int | None = None
) -> Model:
    """A Model with the gaps filled in from its name. ValueError if `name` cannot be a model's name."""
    key = names.canonical(name)
    if not key:
        raise ValueError(f"models: {name!r} is not a model name; write for example qwen2.5:7b")
    if size is None:
        fallback = _SMALL_EMBEDDER_BILLIONS if names.embeds(name) else _FALLBACK_BILLIONS
        size = int((names.billions(name) or fallback) * 1e9 * _BYTES_PER_PARAMETER)
    if kv_bytes_per_token is None:
        # 18 GiB of weights with grouped-query attention keep about 128 KiB a token; embedders keep nothing.
        kv_bytes_per_token = 0 if names.embeds(name) else max(1, size // 150_000)
    if context_length is None:
        # Embedders of any name are the one that there is, and read what it reads.
        context_length = minilm.MAX_TOKENS if names.embeds(name) else _CONTEXTS.get(name.partition(":")[0], _CONTEXT)
    shown = name if ":" in name.rsplit("/", 1)[-1] else f"{name}:latest"
    return Model(shown, size, kv_bytes_per_token, context_length)


def read(text: str) -> Catalogue:
    """Parse the `--models` argument: a comma-separated list, or the path of a YAML/JSON file. Empty: the defaults."""
    if not text.strip():
        return Catalogue([describe(name) for name in DEFAULT])
    path = Path(text)
    if path.suffix in {".json", ".yaml", ".yml"}:
        if not path.is_file():
            raise ValueError(f"models: there is no file {text}")
        return Catalogue([_entry(item) for item in yaml.safe_load(path.read_text(encoding="utf-8"))])
    return Catalogue([describe(name.strip()) for name in text.split(",") if name.strip()])


def _entry(item: object) -> Model:
    if isinstance(item, str):
        return describe(item)
    if isinstance(item, dict) and isinstance(item.get("name"), str):
        size = quantity.to_bytes(item["size"]) if "size" in item else None
        per_token = int(item["kvBytesPerToken"]) if "kvBytesPerToken" in item else None
        context = int(item["contextLength"]) if "contextLength" in item else None
        return describe(item["name"], size, per_token, context)
    raise ValueError(f"models: an entry is a name or {{name, size, kvBytesPerToken, contextLength}}, not {item!r}")
