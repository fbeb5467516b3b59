"""Which of the passages that answer a question the decision agent collects, beside plain retrieval of as many.

The agent is the real one over the real search, graph and embeddings (`bench.kb.inmemory`), and what decides is
`bench.agent_search.maker`, or a real model. Passages count in the order in which they were found first, so that the
first five are those of the first search; what further calls of tools bring is in `all`. Plain retrieval is one search
for the question that may give as many passages as the agent has collected for this question.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from bench.agent_search import maker
from bench.kb import corpus, inmemory, world
from crds.priority import Priority
from kb import api
from kb.agent import answering, decision_model, graph_tool, orchestrator, retrieving, tree
from kb.retrieve import rank, search
from router import client as router_client

CUTS = (2, 5)
# The agent must collect at least what plain retrieval finds at as many passages, in points of 100.
_LEAST = 0.0


async def measure(
    place: world.Place, folder: Path, sets: Sequence[str], *, limit: int, hits: int, ollama: str | None, model: str
) -> dict[str, Any]:
    """Figures of each set; `problems` names the targets that are missed and the questions that were not answered."""
    found: dict[str, Any] = {"decides": model if ollama else "rules", "hits": hits, "sets": {}, "problems": []}
    for name in sets:
        made = await _set(place, folder, name, limit=limit, hits=hits, ollama=ollama, model=model)
        found["problems"] += [f"{name}: {one}" for one in made.pop("problems")]
        found["sets"][name] = made
        sys.stderr.write(f"{name}: {made}\n")
    return found | {"problemCount": len(found["problems"])}


async def _set(
    place: world.Place, folder: Path, name: str, *, limit: int, hits: int, ollama: str | None, model: str
) -> dict[str, Any]:
    triples = folder / f"{name}.triples.jsonl.gz"
    passages = corpus.load(folder / f"{name}.corpus.jsonl.gz", triples if triples.exists() else None)
    questions = corpus.questions(folder / f"{name}.questions.public.jsonl.gz", limit=limit)
    async with contextlib.AsyncExitStack() as stack:
        empty = await stack.enter_async_context(inmemory.opened(place))
        made = await inmemory.fill(empty, passages)
        wire = maker.Maker(ollama)
        http = await stack.enter_async_context(httpx.AsyncClient(transport=wire, timeout=600))
        voiced = decision_model.DecisionModel(router_client.Client("http://model.example.com", http), model, _no_pause)
        return await asked(made, questions, wire, voiced, hits=hits)


async def asked(
    made: inmemory.Corpus,
    questions: Sequence[corpus.Question],
    wire: maker.Maker,
    voiced: decision_model.DecisionModel,
    *,
    hits: int,
) -> dict[str, Any]:
    """The questions, one after the other, by the agent and by plain retrieval."""
    finder = made.finder(rank.Weights(), search.Breadth())
    tools: list[tree.Tool] = [
        retrieving.FastVectorSearchTool(finder, limit=hits),
        graph_tool.GraphExploreTool(made.graph, made.vectors),
        answering.TextResponseTool(voiced),
        answering.SummarizeTool(voiced),
    ]
    agent = orchestrator.AgentOrchestrator(tools, voiced, made.meters, time.monotonic)
    by_agent, by_plain = Tally(), Tally()
    outcomes: Counter[str] = Counter()
    tool_calls: Counter[str] = Counter()
    given = again = 0
    seconds: list[float] = []
    for question in questions:
        begun = time.perf_counter()
        data = tree.TreeData(question.text, corpus.OWNER, Priority.P1)
        events = [one async for one in agent.run(data)]
        seconds.append(time.perf_counter() - begun)
        outcomes[str(events[-1].outcome)] += 1
        tool_calls.update({name: len(calls) for name, calls in data.tasks_completed.items()})
        collected = _passages(one.source_urn for one in data.environment.evidence.values())
        shown = [one for event in events for one in event.objects or () if "chunkId" in one]
        given += len(shown)
        again += len(shown) - len({one["chunkId"] for one in shown})
        by_agent.add(question, collected)
        plain = api.RetrieveRequest(scope=corpus.OWNER, query=question.text, max_results=max(len(collected), 1))
        items = (await finder.retrieve(plain, Priority.P1)).items
        by_plain.add(question, _passages(one.provenance.source_urn for one in items))
    figures = {"agent": by_agent.figures(), "plain": by_plain.figures()}
    gain = figures["agent"]["all"] - figures["plain"]["all"]
    problems = [f"{count} questions ended as {outcome}" for outcome, count in outcomes.items() if outcome != "answered"]
    if gain < _LEAST:
        problems.append(f"the agent collects {-gain:.1f} of 100 less than plain retrieval of as many passages")
    asked = len(questions)
    return {
        "questions": asked,
        "outcomes": dict(outcomes),
        **figures,
        "toolCallsAQuestion": {name: round(count / asked, 2) for name, count in sorted(tool_calls.items())},
        "modelCallsAQuestion": round(wire.calls / asked, 2),
        "repeatedOfGiven": round(again / max(given, 1), 3),
        "millisecondsAQuestion": round(1000 * statistics.fmean(seconds)),
        "problems": problems,
    }


class Tally:
    """Shares of the passages that answer, by question, in percent."""

    def __init__(self) -> None:
        self._shares: dict[str, list[float]] = {name: [] for name in [*(f"R@{cut}" for cut in CUTS), "all", "allGold"]}
        self._passages: list[int] = []

    def add(self, question: corpus.Question, found: Sequence[str]) -> None:
        """What was found for a question, in this order."""
        for cut in CUTS:
            self._shares[f"R@{cut}"].append(_share(question, found[:cut]))
        self._shares["all"].append(_share(question, found))
        self._shares["allGold"].append(float(self._shares["all"][-1] == 1.0))
        self._passages.append(len(found))

    def figures(self) -> dict[str, float]:
        """Means over the questions; `passages` is a number."""
        means = {name: round(100 * statistics.fmean(shares), 1) for name, shares in self._shares.items()}
        return means | {"passages": round(statistics.fmean(self._passages), 1)}


def _share(question: corpus.Question, found: Sequence[str]) -> float:
    right = len(question.gold.intersection(found))
    return float(right > 0) if question.any_of else right / len(question.gold)


def _passages(urns: Any) -> list[str]:
    """Ids of passages, each once, in their order."""
    return list(dict.fromkeys(str(urn).removeprefix(corpus.PREFIX) for urn in urns if urn))


async def _no_pause(seconds: float) -> None:
    return None
