"""The node `execute_delegation`: one branch, one delegation of the plan with all that it delegates in turn.

A branch that dies is repeated from its start and goes through its journal; one that has ended is not repeated, because
its result is written with the graph's own writes before the step is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import JsonValue

from crds import access
from orchestrator_job.agents import executor, loop, protocol
from orchestrator_job.answer import evidence_pack, question_store
from orchestrator_job.context import rules_loader
from orchestrator_job.effects import seen_texts
from orchestrator_job.effects.tools import port
from orchestrator_job.model import intent, rules_context
from orchestrator_job.store import artifacts, delegation_models, delegation_progress, task_memory
from orchestrator_job.store.delegation_models import DelegationStatus
from orchestrator_job.store.graph_state import State

if TYPE_CHECKING:
    from orchestrator_job.effects.tools import toolbox

Opener = Callable[[rules_context.Standing], Awaitable["toolbox.Toolbox"]]
"""Builds the tools of a run under the rules of its round."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a delegation is given of those before it; `opens` is the tool for what is not shown whole of it."""

    outputs: Sequence[delegation_models.AgentOutput]
    opens: port.Tool | None = None


Earlier = Callable[[State, str, Callable[[], Awaitable[Sequence[delegation_models.AgentOutput]]]], Awaitable[Given]]
"""What a delegation is given of those before it: of the state, its id, and what gives it their whole results."""
_OTHERS = ("RAG", "Graph")
"""Origins of evidence that was retrieved; the other origins are the task's own texts."""


class Execute:
    """Carries out the state's `active_delegation_id`. `means` are without tools; `opener` is called once for all
    branches of a process."""

    def __init__(
        self,
        task: task_memory.TaskMemory,
        store: artifacts.Artifacts,
        loader: rules_loader.Loader,
        means: loop.Means,
        opener: Opener,
        earlier: Earlier | None = None,
    ) -> None:
        self._task = task
        self._store = store
        self._loader = loader
        self._means = means
        self._opener = opener
        self._given = earlier
        self._opened: loop.Means | None = None
        self._opening = asyncio.Lock()

    async def __call__(self, state: State) -> State:
        """Writes delegation_states, and completed_delegations and delegation_results of a delegation that ended.
        Raises as `Executor.work`."""
        name = state["active_delegation_id"]
        plan = delegation_models.ExecutionPlan.model_validate(await self._store.get(state["execution_plan"]["key"]))
        message = plan.message(name)
        held = await self._loader.of(state)
        document = str(await self._store.get(state["document"]))
        items = evidence_pack.load(await self._store.get(state["pack"]))
        means = await self._with_tools(held)
        known = seen_texts.SeenTexts.of(self._task, document, means.internal).more(
            seen_texts.Passage(f"{item.title}\n{item.content}", item.source, item.access or access.UNKNOWN)
            for item in items
            if item.origin in _OTHERS
        )
        asked = (await question_store.load(state, self._store)).text if state.get("asked") else ""
        whole = "" if asked in message.context else asked
        given = await self._before(state, plan, name)
        if intent.of(state).later(means.now()):
            # What it wants done is for later: until then it is prepared.
            reading = {name: tool for name, tool in means.tools.items() if not port.acts(tool)}
            means = replace(means, tools=reading)
        ended = await executor.Executor(means, held, known, given.outputs, given.opens, whole).work(message)
        if isinstance(ended, loop.Waiting):
            requests: list[JsonValue] = [one.model_dump(mode="json", by_alias=True) for one in ended.requests]
            key = await self._store.put(requests, state["round"])
            waiting = delegation_progress.entry(DelegationStatus.INTERRUPTED, message.agent_name, request=key)
            return {"delegation_states": {name: waiting}}
        judged = protocol.verdict(ended, tries=protocol.RETRIES)
        accepted = isinstance(judged, protocol.Accept)
        status = DelegationStatus.COMPLETED if accepted else DelegationStatus.FAILED
        verify = isinstance(judged, protocol.Accept) and judged.verify
        return {
            "delegation_states": {name: delegation_progress.entry(status, ended.agent_name, verify=verify)},
            "completed_delegations": [name],
            "delegation_results": {name: await self._store.put(delegation_models.dump(ended), state["round"])},
        }

    async def _with_tools(self, held: rules_context.Standing) -> loop.Means:
        async with self._opening:
            if self._opened is None:
                found = await self._opener(held)
                self._means.absent_tools.update(found.left_out)
                self._means.absent_tools.update({f"{server}.*": why for server, why in found.away.items()})
                self._opened = replace(self._means, tools=found.tools, away=found.away, internal=found.internal)
            return self._opened

    async def _before(self, state: State, plan: delegation_models.ExecutionPlan, name: str) -> Given:
        if self._given is None:
            return Given(await self._earlier(state, plan, name))
        return await self._given(state, name, lambda: self._earlier(state, plan, name))

    async def _earlier(
        self, state: State, plan: delegation_models.ExecutionPlan, name: str
    ) -> Sequence[delegation_models.AgentOutput]:
        """What the groups before this one's handed back."""
        results = state.get("delegation_results") or {}
        outputs: list[delegation_models.AgentOutput] = []
        for group in plan.parallel_groups:
            if name in group:
                break
            for one in group:
                if one in results:
                    outputs.append(delegation_models.AgentOutput.model_validate(await self._store.get(results[one])))
        return outputs
