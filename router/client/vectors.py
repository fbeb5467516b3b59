"""What is read of answers about embedding models, by Ollama and by servers of OpenAI's API. Pure.

Sources: Ollama's API page (`/api/show`), OpenAI's reference (`/v1/embeddings`), vLLM's `/v1/models` (max_model_len).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, FiniteFloat, TypeAdapter, ValidationError

_TOO_LONG = re.compile(r"too large to process|must have less than \d+ tokens", re.IGNORECASE)
_NO_NUMBER = re.compile(r"unsupported value: (?:NaN|[+-]Inf)|Out of range float values are not JSON compliant")
_VECTORS = TypeAdapter(list[list[FiniteFloat]], config=ConfigDict(strict=True))
_NUM_CTX = re.compile(r"^num_ctx\s+(\d{1,9})\s*$", re.MULTILINE)


def too_long(message: str) -> bool:
    """Whether a server refuses a text as longer than the window, with a status that does not say it: llama.cpp's server
    with 500, text-embeddings-inference with 413."""
    return bool(_TOO_LONG.search(message))


def no_number(message: str) -> bool:
    """Whether a server could not write a vector, because it is no vector of numbers: Go's encoding/json and Python's
    json, with 500. It computes the same of the same text."""
    return bool(_NO_NUMBER.search(message))


def has_no_number(error: ValidationError) -> bool:
    """The same of an answer that `read` refuses: it has NaN, or null, which JSON's writers put in its place."""
    return any(
        each["type"] == "finite_number" or (each["type"] == "float_type" and each["input"] is None)
        for each in error.errors(include_url=False)
    )


def read(listed: object) -> list[list[float]]:
    """Vectors of finite numbers. Raises ValidationError."""
    return _VECTORS.validate_python([] if listed is None else listed)


def listed(record: Mapping[str, Any]) -> list[list[float]]:
    """The vectors of an answer of `/v1/embeddings`, in the order of the texts: `data` has each with its text's index.

    Where one is missing there are fewer of them.
    """
    data = record.get("data")
    rows = [row for row in data if isinstance(row, dict)] if isinstance(data, list) else []
    vectors = {index: row.get("embedding") for row in rows if isinstance(index := row.get("index"), int)}
    return [vector for at in range(len(rows)) if isinstance(vector := vectors.get(at), list)]


def shown_window(record: Mapping[str, Any]) -> int | None:
    """Tokens of the window in an answer of `/api/show`: the smaller of the model's context and its num_ctx."""
    about = record.get("model_info")
    about = about if isinstance(about, dict) else {}
    parameter = _NUM_CTX.search(str(record.get("parameters") or ""))
    sizes = (about.get(f"{about.get('general.architecture')}.context_length"), int(parameter[1]) if parameter else None)
    return min((size for one in sizes if (size := _counted(one)) is not None), default=None)


def listed_window(record: Mapping[str, Any]) -> int | None:
    """Tokens of the window in an answer of `/v1/models/MODEL`."""
    return _counted(record.get("max_model_len"))


def _counted(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
