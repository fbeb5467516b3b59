"""The reference: the same steps as a plain LangGraph graph with the MongoDB saver in sync mode, as its guides build it.

A program of its own, started with BENCH_PLAIN in its environment (JSON: uri, database, thread, content, model, kb,
sources, token). Each turn of an agent is a node, a delegation is a branch with a sub-graph; a delegation of an agent to
another runs within the node. Exit status 0: `plain_results` has the answer and what the delegations handed back.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import uuid
from typing import Annotated, Any, TypedDict

import httpx
import pymongo
from langgraph.checkpoint.mongodb import MongoDBSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

RESULTS = "plain_results"
_EFFECTS = {
    "send_mail": "sendMail",
    "create_issue": "createIssue",
    "add_comment": "addComment",
    "edit_page": "editPage",
}
_MODEL = "qwen3-coder:30b"


def _merged(one: dict[str, str], other: dict[str, str]) -> dict[str, str]:
    return {**one, **other}


class Run(TypedDict, total=False):
    """The state of the run. `results` are by number of the delegation, from 1."""

    content: str
    plan: list[dict[str, Any]]
    results: Annotated[dict[str, str], _merged]
    answer: str


class Branch(TypedDict, total=False):
    """The state of one delegation."""

    number: str
    agent: str
    messages: list[dict[str, Any]]
    results: Annotated[dict[str, str], _merged]


class Steps:
    """The nodes."""

    def __init__(self, given: dict[str, str], http: httpx.AsyncClient) -> None:
        self._given, self._http = given, http

    async def plan(self, state: Run) -> Run:
        """What to delegate."""
        said = await self._ask("plain.plan/v1", [{"role": "user", "content": state["content"]}])
        return {"plan": json.loads(said["content"])["delegations"]}

    def ready(self, state: Run) -> list[Send] | str:
        """Delegations whose needs are met, side by side; else the answer."""
        done = state.get("results") or {}
        found = [
            Send("execute", self._branch(str(number), one["agent"], one["task"]))
            for number, one in enumerate(state["plan"], start=1)
            if str(number) not in done and all(str(each) in done for each in one["dependsOn"])
        ]
        return found or "synthesize"

    async def join(self, state: Run) -> Run:
        """After the branches."""
        return {}

    async def model(self, state: Branch) -> Branch:
        """One turn of the agent's model."""
        said = await self._ask(f"plain.agent.{state['agent']}/v1", state["messages"])
        done = {} if said.get("tool_calls") else {"results": {state["number"]: said["content"]}}
        return {"messages": [*state["messages"], said], **done}  # type: ignore[typeddict-item]  # one of its keys

    async def tools(self, state: Branch) -> Branch:
        """The calls of the last turn."""
        called = [await self._call(one["function"]) for one in state["messages"][-1]["tool_calls"]]
        return {"messages": [*state["messages"], *called]}

    def acts(self, state: Branch) -> str:
        """Whether there are calls."""
        return "tools" if state["messages"][-1].get("tool_calls") else END

    async def synthesize(self, state: Run) -> Run:
        """The answer."""
        handed = "\n".join(f"{number}: {text}" for number, text in sorted(state["results"].items()))
        said = await self._ask("plain.synthesize/v1", [{"role": "user", "content": f"{state['content']}\n{handed}"}])
        return {"answer": json.loads(said["content"])["answer"]}

    def _branch(self, number: str, agent: str, task: str) -> Branch:
        return {"number": number, "agent": agent, "messages": [{"role": "user", "content": task}]}

    async def _ask(self, tag: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
        talk = [{"role": "system", "content": f"[prompt:{tag}]"}, *messages]
        asked = {"model": _MODEL, "messages": talk, "stream": False}
        answer = (await self._http.post(f"{self._given['model']}/api/chat", json=asked)).raise_for_status()
        said: dict[str, Any] = answer.json()["message"]
        return said

    async def _call(self, function: dict[str, Any]) -> dict[str, Any]:
        name, arguments = function["name"], function["arguments"]
        if name == "delegate":
            return _given(name, await self._delegated(arguments["agent"], arguments["task"]))
        if name in _EFFECTS:
            asked = {"connection": "office", "key": uuid.uuid4().hex, "arguments": arguments}
            headers = {"Authorization": f"Bearer {self._given['token']}"}
            url = f"{self._given['sources']}/api/v1/effects/{_EFFECTS[name]}"
        else:
            asked = {"scope": {"clientId": "acme"}, "query": arguments["query"]}
            headers, url = {}, f"{self._given['kb']}/api/v1/retrieve"
        answer = (await self._http.post(url, json=asked, headers=headers)).raise_for_status()
        return _given(name, answer.text)

    async def _delegated(self, agent: str, task: str) -> str:
        branch = self._branch("0", agent, task)
        while True:
            branch = {**branch, **await self.model(branch)}
            if self.acts(branch) == END:
                return str(branch["messages"][-1]["content"])
            branch = {**branch, **await self.tools(branch)}


def _given(name: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_name": name, "content": text}


def graph(steps: Steps, saver: MongoDBSaver) -> Any:
    """The compiled graph."""
    branch = StateGraph(Branch)
    branch.add_node("model", steps.model)
    branch.add_node("tools", steps.tools)
    branch.add_edge(START, "model")
    branch.add_conditional_edges("model", steps.acts, ["tools", END])
    branch.add_edge("tools", "model")
    run = StateGraph(Run)
    run.add_node("plan", steps.plan)
    run.add_node("execute", branch.compile())
    run.add_node("join", steps.join)
    run.add_node("synthesize", steps.synthesize)
    run.add_edge(START, "plan")
    run.add_conditional_edges("plan", steps.ready, ["execute", "synthesize"])
    run.add_edge("execute", "join")
    run.add_conditional_edges("join", steps.ready, ["execute", "synthesize"])
    run.add_edge("synthesize", END)
    return run.compile(checkpointer=saver)


async def _run(given: dict[str, str]) -> None:
    client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(
        given["uri"], retryWrites=False, serverSelectionTimeoutMS=2000
    )
    async with httpx.AsyncClient(timeout=90, trust_env=False) as http:
        compiled = graph(Steps(given, http), MongoDBSaver(client, given["database"]))
        config: Any = {
            "configurable": {"thread_id": given["thread"]},
            "recursion_limit": 100,
            "max_concurrency": int(given.get("at_once", "4")),
        }
        found = await compiled.aget_state(config)
        begin = None if found.values.get("content") else {"content": given["content"]}
        final = await compiled.ainvoke(begin, config, durability="sync")
    kept = {"answer": final["answer"], "results": final["results"]}
    client[given["database"]][RESULTS].update_one({"_id": given["thread"]}, {"$set": kept}, upsert=True)
    client.close()


if __name__ == "__main__":
    asyncio.run(_run(json.loads(os.environ["BENCH_PLAIN"])))
    sys.exit(0)
