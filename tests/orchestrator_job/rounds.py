"""The two nodes around the delegations, in this process: real stores, the simulator, the tests' knowledge."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import httpx

from crds import priority
from kb import client as kb_client
from orchestrator_job.answer import evidence_pack, question, question_store
from orchestrator_job.context import rules_loader
from orchestrator_job.model import budget
from orchestrator_job.plan import plan_delegations, procedure_store
from orchestrator_job.run import synthesis
from orchestrator_job.store import delegation_models, delegation_progress, graph_state, retry, task_memory
from router import client as router_client
from tests import waiting
from tests.fakes.ollama import process
from tests.orchestrator_job import job, knowledge, workbench

PLAN = "job.plan_delegations/v1"
SYNTHESIZE = "job.synthesize/v1"
FLAGS = {"specialists": True, "side_by_side": True, "by_procedure": True}


class Round:
    """A round of a task, with the two nodes. `bench` has its stores."""

    def __init__(
        self,
        bench: workbench.Bench,
        kb: kb_client.Client,
        *,
        num_ctx: int | None = None,
        flags: Mapping[str, bool] = FLAGS,
    ) -> None:
        self.bench = bench
        loader = rules_loader.Loader(kb, bench.task.scope, bench.store, retry.Retry(0.3), context_chars=24_000)
        self.loader = loader
        means = plan_delegations.Means(
            task=bench.task,
            kb=kb,
            store=bench.store,
            loader=loader,
            asks=bench.means.asks,
            database=bench.database,
            book=bench.book,
            agents=bench.means.agents,
            model=job.MODEL,
            urgency=priority.Priority.P1,
            num_ctx=num_ctx,
            now=lambda: workbench.NOW,
        )
        self.learning = procedure_store.Learning(kb, bench.task.scope, bench.store, bench.book)
        self.plan = plan_delegations.PlanDelegations(means, **flags)
        self.synthesize = synthesis.Synthesize(
            synthesis.Means(
                task=bench.task,
                kb=kb,
                store=bench.store,
                loader=loader,
                retries=retry.Retry(0.3),
                asks=bench.means.asks,
                model=job.MODEL,
                urgency=priority.Priority.P0,
                beside=priority.Priority.P1,
                num_ctx=num_ctx,
                context_chars=24_000,
                now=lambda: workbench.NOW,
                agents=bench.means.agents,
                learns=flags["by_procedure"],
            )
        )

    async def begun(self, *items: evidence_pack.Item) -> graph_state.State:
        """The state after evidence, with these items behind the task's own."""
        if not self.bench.guard.epoch:
            await self.bench.guard.claim(workbench.NOW)
        task, store = self.bench.task, self.bench.store
        document = task.content or ""
        own = [*question.own_evidence(task, document), *items]
        numbered = [item.model_copy(update={"id": n}) for n, item in enumerate(own, start=1)]
        return {
            "round": 1,
            "document": await store.put(document, 1),
            **await question_store.keep(question.ask(task, document), store, 1),
            "query": question.query(task, document),
            "pack": await store.put(evidence_pack.dump(numbered), 1),
            "standing": await self.loader.keep(await self.loader.read(), 1),
        }

    async def planned(self, begun: graph_state.State) -> tuple[graph_state.State, delegation_models.ExecutionPlan]:
        """The state after the plan, and the plan."""
        after: graph_state.State = {**begun, **await self.plan(begun)}
        return after, delegation_models.ExecutionPlan.model_validate(
            await self.bench.store.get(after["execution_plan"]["key"])
        )

    async def handed_back(
        self,
        begun: graph_state.State,
        plan: delegation_models.ExecutionPlan,
        outputs: Sequence[delegation_models.AgentOutput | None],
    ) -> graph_state.State:
        """The state after these delegations; None: it did not report."""
        results, states, ended = {}, {}, []
        for message, output in zip(plan.delegations, outputs, strict=True):
            if output is not None:
                own = output.model_copy(update={"delegation_id": message.delegation_id})
                done = (
                    delegation_models.DelegationStatus.COMPLETED
                    if own.success
                    else delegation_models.DelegationStatus.FAILED
                )
                results[message.delegation_id] = await self.bench.store.put(delegation_models.dump(own), 1)
                states[message.delegation_id] = delegation_progress.entry(done, own.agent_name)
                ended.append(message.delegation_id)
        return {
            **begun,
            "delegation_results": results,
            "delegation_states": states,
            "completed_delegations": ended,
        }

    async def answered(
        self, handed_back: graph_state.State, *, given: bool = True
    ) -> tuple[dict[str, Any], list[evidence_pack.Item]]:
        """The answer and the evidence after the synthesis; `given` says whether the round ends with the answer."""
        after = await self.synthesize(handed_back)
        await self.learning.after({**handed_back, **after}, answered=given)
        found = await self.bench.store.get(after["answer"])
        assert isinstance(found, dict)
        return found, list(evidence_pack.load(await self.bench.store.get(after["pack"])))


@contextlib.asynccontextmanager
async def opened(
    store: job.Store,
    router: router_client.Client,
    known: knowledge.Knowledge,
    task: task_memory.TaskMemory,
    *,
    limits: budget.Limits | None = None,
    **more: Any,
) -> AsyncIterator[Round]:
    """A round of the task."""
    async with httpx.AsyncClient(timeout=waiting.PATIENCE) as http:
        kb = kb_client.Client(known.url, http, patient=True, attempts=1)
        yield Round(workbench.Bench(store, router, task, limits=limits), kb, **more)


class Nodes:
    """The same of one task, in one call each; `settings` are those of `opened` and fields of the task."""

    def __init__(
        self,
        store: job.Store,
        router: router_client.Client,
        known: knowledge.Knowledge,
        fake: process.Fake,
        uid: str,
    ) -> None:
        self.store, self.router, self.known, self.fake, self.uid = store, router, known, fake, uid

    def opened(self, content: str, **settings: Any) -> contextlib.AbstractAsyncContextManager[Round]:
        """A round of the task."""
        own = {name: settings.pop(name) for name in ("num_ctx", "flags", "limits") if name in settings}
        return opened(self.store, self.router, self.known, workbench.task(self.uid, content, **settings), **own)

    async def planned(
        self, answers: Sequence[Any], *items: evidence_pack.Item, content: str, **settings: Any
    ) -> tuple[graph_state.State, delegation_models.ExecutionPlan]:
        """The state and the plan, where the planning model answers so."""
        self.fake.set_script({PLAN: answers})
        async with self.opened(content, **settings) as one:
            return await one.planned(await one.begun(*items))

    async def answered(
        self,
        answers: Sequence[Any],
        items: Sequence[evidence_pack.Item],
        *outputs: delegation_models.AgentOutput | None,
        plan: Sequence[Any] = (),
        content: str = "When is the release of the router?",
        **settings: Any,
    ) -> tuple[dict[str, Any], list[evidence_pack.Item]]:
        """The answer and its evidence, where the model that writes it answers so and agents have handed that back."""
        self.fake.set_script({SYNTHESIZE: answers, **({PLAN: plan} if plan else {})})
        async with self.opened(content, **settings) as one:
            begun, made = await one.planned(await one.begun(*items))
            assert len(made.delegations) == len(outputs)
            return await one.answered(await one.handed_back(begun, made, outputs))

    def prompts(self, tag: str) -> list[tuple[str, str]]:
        """System and first user message of each request with this tag."""
        asked = [one["body"]["messages"] for one in self.fake.requests(path="/api/chat", tag=tag)]
        return [(one[0]["content"], one[1]["content"]) for one in asked]

    def calls(self, tag: str = "") -> int:
        """How many requests to models there were, of that prompt or of all."""
        return self.fake.count(path="/api/chat", **({"tag": tag} if tag else {}))


def item(content: str, source: str = "email::plan", **fields: Any) -> evidence_pack.Item:
    """An item of evidence."""
    return evidence_pack.Item(id=0, content=content, **{"source": source, "title": "Plan", "origin": "RAG", **fields})


def output(agent: str, result: str, **fields: Any) -> delegation_models.AgentOutput:
    """A report that is taken as it is."""
    status = "1" if fields.get("success", True) else "0"
    given = {
        "delegation_id": "r1.d1", "agent_name": agent, "success": True, "result": result, "confidence": 0.9,
        "needs_verification": False, "structured_data": {"status": status, "issues": []}, **fields,
    }  # fmt: skip
    return delegation_models.AgentOutput.model_validate(given)
