"""The nodes of the plan: `MakePlan` has the light model plan the round, `FollowPlan` does what its steps search for.

A plan that cannot be made is recorded with its reason, and the run goes on without it. Both nodes only read, so a
process that dies in one of them repeats it; once its checkpoint is written, no run plans this round again.

Source: seed 002 "Koog Planner Integration": rules, ragContext and projectInfo are the context of a plan.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import structlog

from crds import priority
from kb import api
from kb import client as kb_client
from orchestrator_job import errors, outcome
from orchestrator_job.answer import answer_prompt, evidence_pack, question, question_store
from orchestrator_job.context import rules_loader
from orchestrator_job.model import (
    excerpt,
    intent,
    model_calls,
    prompt_budget,
    prompt_escape,
    prompts,
    rules_context,
    step_tools,
)
from orchestrator_job.plan import run_plan
from orchestrator_job.store import artifacts, retry, task_memory
from orchestrator_job.store.graph_state import State
from router import client as router_client
from router.client import reading

_log = structlog.get_logger("orchestrator_job.plan.run_plan_nodes")

NAME = "plan.v1"
UNAVAILABLE_SECONDS = 10.0
"""How long a plan waits for a model that is busy or away: the run has an answer without it, and waits longer there."""
NUM_CTX = 4096
"""Window of the light model where none is set, in tokens: the least that it is meant to have."""
_ANSWER_TOKENS = 1536
"""Part of the window for the answer."""
_FRAME = 300
"""Bytes of an item's block without its content."""
_LEAST_ITEM = 100
_PROJECT_BYTES = 1200
_ORDERS = """
Where intent is neither advice nor respond, others plan and do the work: give intent, sentence and effects alone, and no
steps. Else give steps alone."""
_NEAREST = 3
_NODES = 20
_FOUND_PER_STEP = 3


@dataclass(frozen=True)
class Context:
    """What a plan is made from: the rules in force, the evidence, and what the graph says about the task's project."""

    rules: rules_context.Standing
    rag_context: tuple[evidence_pack.Item, ...]
    project_info: str = ""

    def nearest(self) -> Context:
        """What is nearest to the task alone, for a model to which all of it was too much."""
        return Context(self.rules, self.rag_context[:_NEAREST])


class MakePlan:
    """Asks the light model for the plan of the round."""

    def __init__(
        self,
        task: task_memory.TaskMemory,
        kb: kb_client.Client,
        store: artifacts.Artifacts,
        asks: model_calls.Asking,
        loader: rules_loader.Loader,
        *,
        model: str,
        urgency: priority.Priority,
        num_ctx: int | None,
        seconds: float,
        now: Callable[[], datetime],
        kinds: tuple[intent.Kind, ...] = (),
    ) -> None:
        """`seconds` bound the whole planning; `asks` has the calls and tokens of the round that a plan may take.
        `kinds` are what an order of a user has in place of a plan."""
        self._task = task
        self._kb = kb
        self._store = store
        self._asks = asks
        self._loader = loader
        self._model = model
        self._urgency = urgency
        self._num_ctx = num_ctx
        self._seconds = seconds
        self._now = now
        self._kinds = kinds if task.asked_by_user else ()

    async def __call__(self, state: State) -> State:
        """Writes plan, a failed one included, or intent of what is worked on. Raises Fenced, StoreUnavailable, and what
        a refused token raises."""
        number, earlier = state["round"], run_plan.load(state.get("plan"))
        items = evidence_pack.load(await self._store.get(state["pack"]))
        held = await self._loader.of(state)
        try:
            async with asyncio.timeout(self._seconds):
                context = Context(held, items, await self._project(held))
                planned = await self._planned(state, context, earlier)
        except TimeoutError:
            made = run_plan.failed(f"It took more than {self._seconds:g} seconds.", earlier, number, self._model)
        except router_client.Unauthorized:
            raise
        except (
            errors.BudgetExhausted,
            errors.InvalidOutput,
            reading.Unusable,
            router_client.Unavailable,
            router_client.Rejected,
        ) as error:
            made = run_plan.failed(error.message, earlier, number, self._model)
        else:
            reason = f"The user added to the task, which began round {number}."
            if isinstance(planned, intent.Intent):
                _log.info("ordered", intent=planned.kind.value)
                return {"intent": planned.at(self._now()).dump()}
            steps, notes = planned
            made = run_plan.made(steps, notes, earlier, number, self._model, reason)
        _log.info("planned", version=made.version, steps=len(made.steps), dropped=len(made.notes), failure=made.failure)
        return {"plan": run_plan.dump(made)}

    async def _project(self, held: rules_context.Standing) -> str:
        """Names near the task in the graph, as lines; empty where nothing is known, or where a rule keeps evidence
        back: the graph does not say which sources its lines are from."""
        keys = list(self._task.graph_node_keys[:_NODES])
        if not keys or not held.provisions.permits_tool(step_tools.Tool.SEARCH) or not held.provisions.shows_all:
            return ""
        asked = api.TraverseRequest(scope=self._task.scope, start=keys, hops=1, fan_out=_NODES, limit=2 * _NODES)
        try:
            found = await self._kb.looking.traverse(asked)
        except (kb_client.Unavailable, kb_client.Rejected) as error:
            outcome.recheck(error)
            _log.warning("planning without the graph", reason=error.message)
            return ""
        return project_info(found)

    async def _planned(
        self, state: State, context: Context, earlier: run_plan.Plan | None
    ) -> tuple[tuple[run_plan.Step, ...], tuple[str, ...]] | intent.Intent:
        tools = run_plan.allowed(context.rules.provisions)
        asked = await question_store.load(state, self._store)
        window, rules = self._num_ctx or NUM_CTX, context.rules.provisions
        now = self._now()

        def judge(draft: run_plan.Draft) -> tuple[tuple[run_plan.Step, ...], tuple[str, ...]] | intent.Intent:
            return run_plan.judged(prompt_escape.restored(draft), rules)

        def order(reply: intent.Ordered) -> tuple[tuple[run_plan.Step, ...], tuple[str, ...]] | intent.Intent:
            wanted = intent.read(reply, asked.text, state["round"])
            if wanted is None or wanted.kind not in self._kinds:
                raise reading.Unusable("intent: is nothing that is worked on without a plan; give steps")
            return wanted

        return await self._asks.shaped(
            "plan",
            f"r{state['round']}.plan",
            messages(asked, context, now, tools, earlier, window, self._kinds),
            run_plan.Draft,
            judge,
            wire=run_plan.wire(tools, self._kinds),
            priority=self._urgency,
            model=self._model,
            num_ctx=self._num_ctx,
            num_predict=_ANSWER_TOKENS,
            # The third try plans from what is nearest to the task alone.
            smaller=lambda: messages(asked, context.nearest(), now, tools, earlier, window, self._kinds),
            final=True,
            ordered=order if self._kinds else None,
        )


class FollowPlan:
    """Searches the knowledge base for the steps that ask for it, and amends the plan by what was found."""

    def __init__(
        self,
        task: task_memory.TaskMemory,
        kb: kb_client.Client,
        store: artifacts.Artifacts,
        retries: retry.Retry,
        loader: rules_loader.Loader,
        *,
        urgency: priority.Priority,
        context_chars: int,
        room: question.Room,
    ) -> None:
        self._task = task
        self._kb = kb
        self._store = store
        self._retries = retries
        self._loader = loader
        self._urgency = urgency
        self._context_chars = context_chars
        self._room = room

    async def __call__(self, state: State) -> State:
        """Writes pack and plan."""
        made = run_plan.of_round(state.get("plan"), state["round"])
        held = await self._loader.of(state)
        wanted = run_plan.searches(made, held.provisions) if made is not None else {}
        if made is None or not wanted:
            return {}
        hits = dict(zip(wanted, await asyncio.gather(*map(self._found, wanted.values())), strict=True))
        shown = {number: [one for one in found if self._counts(one, held)] for number, found in hits.items()}
        items = evidence_pack.load(await self._store.get(state["pack"]))
        said = (await question_store.load(state, self._store)).within(self._room.most)
        room = self._context_chars - held.characters - self._room.taken(said)
        every = [one for found in shown.values() for one in found]
        longer = evidence_pack.extend(items, every, self._task.source, room, held.provisions)
        followed = run_plan.amended(made, {number: len(found) for number, found in shown.items()}, held.provisions)
        _log.info("plan followed", searches=len(wanted), found=len(longer) - len(items), version=followed.version)
        return {
            "pack": await self._store.put(evidence_pack.dump(longer), state["round"]),
            "plan": run_plan.dump(followed),
        }

    async def _found(self, query: str) -> list[api.EvidenceItem]:
        request = api.RetrieveRequest(scope=self._task.scope, query=query, max_results=_FOUND_PER_STEP)
        ask = functools.partial(self._kb.retrieve, request, urgency=self._urgency)
        try:
            return list((await self._retries.call("retrieve evidence for a step", ask)).items)
        except kb_client.Rejected as error:
            outcome.recheck(error)
            # The words are a model's: what is wrong with them must not end the run.
            _log.warning("search of a step refused", reason=error.message)
            return []

    def _counts(self, one: api.EvidenceItem, held: rules_context.Standing) -> bool:
        """Whether it is new to the run, which has the task's own document, and no rule forbids it."""
        place = one.provenance
        return place.source_urn != self._task.source and held.provisions.shows(place.source_urn, place.kind)


def messages(
    asked: excerpt.Parts | str,
    context: Context,
    now: datetime,
    tools: tuple[str, ...],
    earlier: run_plan.Plan | None = None,
    num_ctx: int = NUM_CTX,
    kinds: tuple[intent.Kind, ...] = (),
) -> list[dict[str, str]]:
    """System and user message, within `num_ctx` tokens with the answer; evidence and project are cut to it, and of a
    question that does not fit beside evidence the middle is left out.

    Rules are never cut. Raises Unusable when they leave no room for evidence.
    """
    ordered = f"{intent.asked(kinds)}{_ORDERS}" if kinds else ""
    system = f"{prompts.tagged(NAME)}{ordered}{answer_prompt.rules(context.rules)}"
    before = f"{context.rules.today(now)}\nTools: {', '.join(tools)}"
    followed = run_plan.block(earlier)
    fitted = prompt_budget.fit(
        asked,
        (system, before, followed),
        num_ctx - _ANSWER_TOKENS,
        token_bytes=prompt_budget.CAREFUL_TOKEN_BYTES,
    )
    if fitted.left < prompt_budget.LEAST:
        raise reading.Unusable("The rules leave no room for evidence in the planner's window.")
    project = ""
    if context.project_info:
        most = min(_PROJECT_BYTES, fitted.left // 4)
        project = f"<project>\n{excerpt.first(prompt_escape.defuse(context.project_info), most)}\n</project>\n"
    evidence = _cut(context.rag_context, fitted.left - excerpt.size(project))
    user = "\n".join(part for part in (before, project + evidence, followed, fitted.block) if part)
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def project_info(found: api.TraverseReply) -> str:
    """Relationships near the task, a line each, then the nodes that have none."""
    related = [f"{edge.source} {edge.type} {edge.target}" for edge in found.edges]
    named = {key for edge in found.edges for key in (edge.source, edge.target)}
    return "\n".join([*dict.fromkeys(related), *(visit.key for visit in found.nodes if visit.key not in named)])


def _cut(items: tuple[evidence_pack.Item, ...], room: int) -> str:
    """The items in `room` bytes, each with an equal share of what is left: a long document does not take all of it."""
    shown: list[str] = []
    for position, item in enumerate(items):
        share = room // min(len(items) - position, 4)
        most = max(share - _FRAME, _LEAST_ITEM)
        block = answer_prompt.evidence([item.model_copy(update={"content": excerpt.first(item.content, most)})])
        if excerpt.size(block) > room:
            break
        shown.append(block)
        room -= excerpt.size(block) + 1
    return "\n".join(shown)
