"""What the knowledge base keeps of answers that break off: nothing, so that they are asked for again."""

from __future__ import annotations

import json

import httpx
import prometheus_client

from crds import priority, scope
from kb import metrics
from kb.reading import answers, extraction, prompt
from router import client

_OWNER = scope.Scope(client_id="c")
_QUESTION = prompt.compose("x/v1", "i", [], "text")


class Shelf:
    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    async def answer(self, key: str, owner: scope.Scope) -> str | None:
        return self.kept.get(key)

    async def keep_answer(self, key: str, prompt_name: str, text: str, owner: scope.Scope) -> None:
        self.kept[key] = text


def _server(*texts: str) -> httpx.MockTransport:
    """A model that writes these answers, the last one again and again; each ends at the length that it may have."""
    left = list(texts)

    def answer(request: httpx.Request) -> httpx.Response:
        text = left.pop(0) if len(left) > 1 else left[0]
        record = {"message": {"content": text}, "done": True, "done_reason": "length", "eval_count": 9}
        return httpx.Response(200, content=json.dumps(record).encode())

    return httpx.MockTransport(answer)


async def _read(shelf: Shelf, *texts: str) -> tuple[extraction.Extraction, int]:
    """The facts, and the calls that they took."""
    spent = answers.Spent()
    async with httpx.AsyncClient(transport=_server(*texts)) as http:
        meters = metrics.Metrics(prometheus_client.CollectorRegistry())
        asked = answers.Answers(client.Client("http://router", http), "m", shelf, meters)
        read = await asked.ask(_QUESTION, extraction.Extraction, priority.Priority.P3, _OWNER, spent)
        return read, spent.calls


_CUT = '{"entities": [{"name": "Anna", "type": "person"}, {"name": "Be'
_WHOLE = '{"entities": [{"name": "Anna", "type": "person"}, {"name": "Bela", "type": "person"}], "relationships": []}'


async def test_a_chunk_whose_facts_break_off_is_asked_for_again() -> None:
    shelf = Shelf()
    read, calls = await _read(shelf, _CUT)
    assert ([one.name for one in read.entities], calls, shelf.kept) == (["Anna"], answers.ATTEMPTS, {})
    read, calls = await _read(shelf, _CUT, _WHOLE)
    assert ([one.name for one in read.entities], calls, len(shelf.kept)) == (["Anna", "Bela"], 2, 1)
