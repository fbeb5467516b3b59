"""Schemas that the product can send are sent once to a real model, whose answer follows them: a part of them, or each
in `make test-thorough`."""

from __future__ import annotations

import json
from typing import Any

import httpx
import jsonschema

from router.client import schema
from tests import thorough
from tests.real import serving
from tests.real.conftest import MODEL
from tests.schemas import walking

_TOKENS = 200
"""Of an answer. A small model writes texts without an end, which no grammar bounds."""
_LEAST_ENDED = 0.25
"""Share of the answers that end before: without any, none would be compared."""


def _request(sample: walking.Sample) -> dict[str, Any]:
    asked = f"Answer in a few words with one JSON object: {schema.sketch(sample.schema)[:2000]}"
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": asked}],
        "format": sample.schema,
        "options": {"num_predict": _TOKENS, "num_ctx": 8192, "seed": 7, "temperature": 0, "repeat_penalty": 1.3},
        "stream": False,
    }


async def test_each_schema_is_answered_by_what_it_allows(asking: httpx.AsyncClient, ollama: serving.Ollama) -> None:
    samples = thorough.part(walking.formats())
    problems, ended = dict[str, str](), 0
    for sample in samples:
        answer = await asking.post("/api/chat", json=_request(sample))
        if answer.status_code != 200:
            problems[sample.name] = f"{answer.status_code} {answer.text[:200]}"
            continue
        record = answer.json()
        if record["done_reason"] != "stop":
            continue
        ended += 1
        try:
            jsonschema.validate(json.loads(record["message"]["content"]), sample.schema)
        except (ValueError, jsonschema.ValidationError) as error:
            problems[sample.name] = f"{str(error)[:200]}: {record['message']['content'][:200]}"
    assert problems == {}
    assert ended >= _LEAST_ENDED * len(samples)
