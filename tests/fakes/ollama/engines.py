"""The habits of real engines (`faults.Engine`), as they are seen at the wire. Pure.

Source: Ollama's `server/routes.go` (tools and thinking are capabilities of a model's template) and `llm/server.go` (a
stream of thirty equal tokens is ended without a last record); docs/decisions/0177 for grammars.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.fakes.ollama.faults import Engine
from tests.fakes.ollama.protocol import errors, names, request

THOUGHTS = ["The user wants", " JSON. It may", ' look like {"summary": "?"}', ", so I begin."]
_PROSE, _AFTER = "Sure! Here is what you asked for:\n```json\n", "\n```\nShall I change anything?"
_LONGEST_TEXT = 2000
_EQUAL, _BLANKS = 30, 4096


@dataclass(frozen=True)
class Written:
    """What an engine writes: thoughts, the pieces of the answer, and whether its last record comes."""

    thoughts: Sequence[str]
    pieces: list[str]
    ends: bool = True


def refuse(engine: Engine | None, wanted: request.Generation) -> None:
    """Raises the Refusal of an engine that cannot do what is wanted."""
    if engine == "noTools" and wanted.tools:
        raise errors.Refusal(400, f"registry.ollama.ai/library/{names.canonical(wanted.model)} does not support tools")


def dies(engine: Engine | None, wanted: request.Generation) -> bool:
    """Whether the engine's runner ends of the request."""
    return engine == "diesOfBounds" and any(bound > _LONGEST_TEXT for bound in _bounds(wanted.format))


def write(engine: Engine | None, pieces: list[str], wanted: request.Generation) -> Written:
    """The answer of these pieces as the engine writes it."""
    part = pieces[: max(1, len(pieces) * 2 // 3)]
    match engine:
        case "thinks":
            return Written(THOUGHTS, pieces)
        case "thinksInText":
            return Written((), ["<think>", *THOUGHTS, "</think>", "\n\n", *pieces])
        case "ignoresFormat" if wanted.format is not None:
            return Written((), [_PROSE, *pieces, _AFTER])
        case "blanks":
            return Written((), [*part, *["\n"] * (wanted.num_predict or _BLANKS)])
        case "endsEarly":
            return Written((), [*part, *[part[-1]] * _EQUAL], ends=False)
        case _:
            return Written((), pieces)


def _bounds(schema: Any) -> Iterator[int]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "maxLength" and isinstance(value, int):
                yield value
            else:
                yield from _bounds(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _bounds(value)
