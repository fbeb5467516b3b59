"""A decision maker at the wire that follows rules: httpx's transport answers as Ollama does.

It knows what the agent sends it and nothing else. First it searches for the question; then, `FOLLOWED` times, for a
name that a passage has, that the question has not, and that no passage is titled like; then it answers. Of the names it
takes the one whose sentence shares most words with the question, so that a bridge such as the mother in "When did
Lothair's mother die?" is followed, or is not: it reads words and no meaning. While the graph gives relationships a name
is looked up there first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Any

import httpx

from bench.agent_search import model
from bench.kb import names
from kb.extract import sentence
from text import words

FOLLOWED = 3
_QUESTION = re.compile(r"<question>\n(.*?)\n</question>", re.DOTALL)
_RETRIEVED = re.compile(
    r"^Retrieved data:\n(.*?)^Previous errors:\n(.*?)^Tools already used:", re.DOTALL | re.MULTILINE
)
_CALLED = re.compile(r"^calledBefore:\n(.*?)^AVAILABLE TOOLS:", re.DOTALL | re.MULTILINE)
_PASSAGE = re.compile(r"^\[\d+\] ([^\n]*)\n<document>\n(.*?)\n</document>", re.DOTALL | re.MULTILINE)
_PARENTHESIS = re.compile(r"\s*\([^)]*\)\s*$")
_WORD = re.compile(r"[\w'\u2019-]+")


@dataclass(frozen=True)
class Seen:
    """What a prompt says: `passages` are (title, text), the first that was found first; `called` are lines."""

    question: str
    passages: tuple[tuple[str, str], ...]
    called: tuple[str, ...]
    errors: str


class Maker(httpx.AsyncBaseTransport):
    """Decides and answers; with the URL `ollama` the model there does. `calls` counts requests."""

    def __init__(self, ollama: str | None = None) -> None:
        self._ollama = None if ollama is None else httpx.URL(ollama)
        self._onward = httpx.AsyncHTTPTransport()
        self.calls = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.calls += 1
        if self._ollama is not None:
            return await self._pass(request, self._ollama)
        body = json.loads(await request.aread())
        if not str(body["messages"][0]["content"]).startswith(f"[prompt:{model.DECIDE}"):
            return httpx.Response(200, content=model.lines("That is what was found [1].", whole=True))
        return httpx.Response(200, content=model.lines(json.dumps(decide(body["messages"][1]["content"])), whole=True))

    async def aclose(self) -> None:
        await self._onward.aclose()

    async def _pass(self, request: httpx.Request, to: httpx.URL) -> httpx.Response:
        request.url = request.url.copy_with(scheme=to.scheme, host=to.host, port=to.port)
        request.headers["Host"] = to.netloc.decode()
        return await self._onward.handle_async_request(request)


def decide(prompt: str) -> dict[str, Any]:
    """The decision for a prompt of `kb.agent.decision`."""
    seen = read(prompt)
    if not seen.called:
        return model.decision("fast_vector_search", {"query": seen.question})
    name = next(followed(seen), "") if len(seen.called) <= FOLLOWED else ""
    if not name:
        return model.decision("text_response", {})
    if "No relationships" not in seen.errors and not any("graph_explore" in line for line in seen.called):
        return model.decision("graph_explore", {"node": name})
    return model.decision("fast_vector_search", {"query": " ".join([name, *_rest(seen.question)])})


def read(prompt: str) -> Seen:
    """What the prompt says. Raises ValueError for another prompt."""
    question, retrieved, called = (one.search(prompt) for one in (_QUESTION, _RETRIEVED, _CALLED))
    if question is None or retrieved is None or called is None:
        raise ValueError("this is no prompt of the decision agent")
    lines = tuple(line[2:] for line in called[1].splitlines() if line.startswith("- "))
    passages = tuple((head.split(" | ")[0], text) for head, text in _PASSAGE.findall(retrieved[1]))
    return Seen(question[1], passages, lines, retrieved[2])


def followed(seen: Seen) -> Iterator[str]:
    """Names to look up, the best first: those of a sentence that shares most words with the question, of them the one
    that stands closest to such a word, of them the one that was found first."""
    asked = set(words.asked(seen.question))
    about = set(words.asked(" ".join(_rest(seen.question))))
    known = " ".join([seen.question, *seen.called]).casefold()
    titles = {_PARENTHESIS.sub("", title).casefold() for title, _ in seen.passages}
    found: dict[str, tuple[int, int, int]] = {}
    for place, (title, text) in enumerate(seen.passages):
        for part in sentence.split(text):
            shared = len(asked.intersection([*words.terms(part.text), *words.terms(title)]))
            for name in names.find("", part.text):
                if name.casefold() in known or name.casefold() in titles or asked.issuperset(words.terms(name)):
                    continue
                worth = (shared, -_distance(part.text, name, about), -place)
                found[name] = max(found.get(name, worth), worth)
    # Of "Richard Lawson" and "Lawson" the whole name, which comes first in its sentence.
    yield from sorted(found, key=lambda name: found[name], reverse=True)


def _distance(text: str, name: str, about: Set[str]) -> int:
    """Characters between the name and the closest of these words."""
    start = text.find(name)
    end = start + len(name)
    places = [
        max(found.start() - end, start - found.end(), 0)
        for found in _WORD.finditer(text)
        if not start <= found.start() < end and not about.isdisjoint(words.terms(found[0]))
    ]
    return min(places, default=len(text))


def _rest(question: str) -> list[str]:
    """The question's words without names."""
    return [word for word in _WORD.findall(question)[1:] if word.islower()]
