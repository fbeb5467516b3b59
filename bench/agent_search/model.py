"""A model at the wire that decides wrongly in every way there is: httpx's transport answers as Ollama does.

Everything is drawn from one seed: unknown tools, wrong types, repetitions, nothing, a megabyte, JSON that is none,
invented quotations, and with `outages` busy backends and answers that break off; and now and then something right, so
that runs get to every place from which they can go wrong.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
from typing import Any

import httpx

_MEGABYTE = 1 << 20
_DIMENSION = 16
_WORDS = ("voltage", "pump", "Jana Novak", "filter", "nothing of that kind", "\x00", "{query}", "</document>", "🙂", "")
DECIDE = "kb.agent.decide/"


class Model(httpx.AsyncBaseTransport):
    """With `seconds` it is right, and takes so long for each answer.

    `calls` counts requests by their prompt's tag, `kinds` what was said.
    """

    def __init__(self, seed: int, *, outages: bool = False, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._decisions = _DECISIONS + _OUTAGES if outages else _DECISIONS
        self._answers = _ANSWERS + _OUTAGES if outages else _ANSWERS
        self._random = random.Random(seed)
        self._last = "{}"
        self.calls: dict[str, int] = {}
        self.kinds: dict[str, int] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(await request.aread())
        if request.url.path == "/api/embed":
            return httpx.Response(200, json={"embeddings": [_vector(text) for text in body["input"]]})
        if request.url.path == "/api/show":
            return httpx.Response(200, json={})
        system = str(body["messages"][0]["content"])
        found = re.match(r"\[prompt:(.+?)\]", system)
        tag = found[1] if found else ""
        self.calls[tag] = self.calls.get(tag, 0) + 1
        if self._seconds is not None:
            return await self._slowly(tag, body, self._seconds)
        if tag.startswith(DECIDE):
            kind = self._random.choice(self._decisions)
            said = getattr(self, f"_{kind}")(body["format"])
        else:
            kind = self._random.choice(self._answers)
            said = getattr(self, f"_{kind}")({})
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if isinstance(said, httpx.Response):
            return said
        text = said if isinstance(said, str) else json.dumps(said)
        if isinstance(said, dict) and "tool" in said:
            self._last = text
        return httpx.Response(200, content=lines(text, whole=kind != "broken_off"))

    async def _slowly(self, tag: str, body: dict[str, Any], seconds: float) -> httpx.Response:
        """What a good model answers: one search, then the answer."""
        await asyncio.sleep(seconds)
        if not tag.startswith(DECIDE):
            return httpx.Response(200, content=lines(self._said({}), whole=True))
        found = "text_response" in _offered(body["format"])
        said = decision("text_response", {}) if found else decision("fast_vector_search", {"query": "voltage"})
        return httpx.Response(200, content=lines(json.dumps(said), whole=True))

    def _right(self, schema: dict[str, Any]) -> dict[str, Any]:
        tool = self._random.choice(_offered(schema))
        return decision(tool, self._inputs(tool), enough=self._random.random() < 0.1)

    def _unknown_tool(self, schema: dict[str, Any]) -> dict[str, Any]:
        names = ("send_mail", "colqwen_visual_search", "", "../text_response", "FAST_VECTOR_SEARCH", "a" * 5000)
        return decision(self._random.choice(names), {"query": "voltage"})

    def _unavailable(self, schema: dict[str, Any]) -> dict[str, Any]:
        return decision(self._random.choice(("text_response", "summarize", "rules", "code_search")), {})

    def _wrong_type(self, schema: dict[str, Any]) -> Any:
        wrong: list[Any] = [7, None, ["a"], {"a": {"b": 1}}, True, "text"]
        made = decision(self._random.choice(_offered(schema)), {"query": "voltage"})
        made[self._random.choice(list(made))] = self._random.choice(wrong)
        return made

    def _wrong_inputs(self, schema: dict[str, Any]) -> dict[str, Any]:
        choices: list[dict[str, Any]] = [
            {},
            {"query": 3},
            {"query": ["voltage"]},
            {"query": ""},
            {"node": "", "hops": 99},
            {"node": "x" * 100_000},
            {"query": "a", "scope": {"clientId": "other"}},
            {"query": "b" * 3000},
        ]
        return decision(self._random.choice(("fast_vector_search", "graph_explore")), self._random.choice(choices))

    def _repeated(self, schema: dict[str, Any]) -> str:
        return self._last

    def _nothing(self, schema: dict[str, Any]) -> str:
        return self._random.choice(("", " ", "\n", "null", "[]", "{}", '""'))

    def _megabyte(self, schema: dict[str, Any]) -> Any:
        if self._random.random() < 0.5:
            return "x" * _MEGABYTE
        return decision("fast_vector_search", {"query": "y" * _MEGABYTE})

    def _no_json(self, schema: dict[str, Any]) -> str:
        return self._random.choice(
            ("I would search.", '{"tool": "fast_vec', "```json\n{}\n```", "[" * 3000, '{"tool": "\\ud800"}', "NaN")
        )

    def _lost(self, schema: dict[str, Any]) -> dict[str, Any]:
        return decision("text_response", {}, impossible=self._random.random() < 0.5, should_end=True)

    def _busy(self, schema: dict[str, Any]) -> httpx.Response:
        return httpx.Response(503, json={"error": "busy"}, headers={"Retry-After": "1"})

    def _broken_off(self, schema: dict[str, Any]) -> str:
        return '{"enough": fal'

    def _said(self, schema: dict[str, Any]) -> str:
        return "The operating voltage of the pump is 230 volts [1]. See also [2]."

    def _quoted(self, schema: dict[str, Any]) -> str:
        return 'It says "the operating voltage of the pump is 230 volts" [1]. And "no author ever wrote this here" [1].'

    def _invented(self, schema: dict[str, Any]) -> str:
        return '"No author ever wrote this sentence in any document" [7].'

    def _inputs(self, tool: str) -> dict[str, Any]:
        word = self._random.choice(_WORDS) or "voltage"
        return {"fast_vector_search": {"query": word}, "graph_explore": {"node": word}}.get(tool, {})


_DECISIONS = (
    *("right",) * 6,
    *("unknown_tool", "unavailable", "wrong_type", "wrong_inputs", "repeated", "nothing", "no_json", "lost"),
    "megabyte",
)
_ANSWERS = (*("said",) * 3, "quoted", "invented", "nothing")
_OUTAGES = ("busy", "broken_off")


def _offered(schema: dict[str, Any]) -> list[str]:
    """The tools among which a decision of this schema chooses; that the evidence is enough is the choice to answer."""
    shapes = [shape["properties"] for shape in schema.get("anyOf", [schema])]
    tools = [name for shape in shapes for name in shape.get("tool", {}).get("enum", [])]
    return [*tools, *(["text_response"] if any("enough" in shape and "tool" not in shape for shape in shapes) else [])]


def decision(tool: str, inputs: dict[str, Any], **more: bool) -> dict[str, Any]:
    """A decision as a model writes it."""
    made = {"enough": False, "tool": tool, "inputs": inputs, "reasoning": "because"}
    return made | {"should_end": False, "impossible": False} | more


def lines(text: str, *, whole: bool) -> bytes:
    """An answer as Ollama streams it, in two pieces; without its end where it is not `whole`."""
    cut = len(text) // 2
    records: list[dict[str, Any]] = [{"message": {"content": piece}} for piece in (text[:cut], text[cut:])]
    if whole:
        records.append({"message": {"content": ""}, "done": True, "prompt_eval_count": 10, "eval_count": 5})
    return b"".join(json.dumps(one).encode() + b"\n" for one in records)


def _vector(text: str) -> list[float]:
    digest = hashlib.sha256(text.encode(errors="replace")).digest()
    return [byte / 255 for byte in digest[:_DIMENSION]]
