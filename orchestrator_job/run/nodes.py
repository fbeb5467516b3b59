"""The nodes up to the answer; `finalize` has the others.

Each reads the state and returns its changes. A node is repeated from its start when the process dies in it: these nodes
only read, and store content under its own hash.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib

import structlog

from contracts.rules import time_zones
from kb import api
from orchestrator_job import errors
from orchestrator_job.answer import answer_prompt, citations, evidence_pack, model_answer, question, question_store
from orchestrator_job.model import excerpt, intent, model_calls, prompt_escape, repetition, step_tools
from orchestrator_job.plan import run_plan
from orchestrator_job.run import run_context
from orchestrator_job.store import task_memory
from orchestrator_job.store.graph_state import State
from router import client as router_client
from router.client import reading

_log = structlog.get_logger("orchestrator_job.run.nodes")

_LOOKED_AT = 64_000
"""Characters of a text that are compared with what is known about the user."""
_DOCUMENT_BYTES = 2 << 20
"""What a run reads of a task's content, which may have 64 MiB: beginning and end of it."""
_ATTACHED = 3
"""Maximum of passages from the task's own files, which come first."""
_NEAREST = 4
"""Items of evidence of the last try."""
_WINDOW = 4096
"""Tokens, where no window is asked for: Ollama's default on small GPUs."""


class Intake:
    """Loads the rules, what is known about the user, what was done and said before, and the task's text, all side by
    side; forms question and query."""

    def __init__(self, run: run_context.RunContext) -> None:
        self._run = run
        self._task = run.task
        self._store = run.store
        self._loader = run.loader

    async def __call__(self, state: State) -> State:
        """Writes standing, session_memory, document, question, asked, query and model.

        Raises InvalidInput for unusable content or rules.
        """
        number = state["round"]
        found, text = await asyncio.gather(self._loader.read(), self._text())
        document = excerpt.ends(text, _DOCUMENT_BYTES)
        if not document.strip():
            raise errors.InvalidInput("The task's content is blank.", field="spec.content", remedy="Write what to do.")
        # First what can be refused; then the rest beside each other.
        held = await self._loader.keep(found, number, excerpt.edges(document, _LOOKED_AT), zone(self._task, document))
        session, stored, asked = await asyncio.gather(
            self._loader.keep_session(found, number),
            self._store.put(document, number),
            question_store.keep(question.ask(self._task, document), self._store, number),
        )
        read: State = {
            "standing": held,
            "session_memory": session,
            "document": stored,
            "query": question.query(self._task, document),
            "model": "",
        }
        return {**read, **asked}

    async def _text(self) -> str:
        ref = self._task.content_ref
        if ref is None:
            return self._task.content or ""
        raw = await self._run.retries.call("fetch content", lambda: self._run.kb.fetch(self._task.scope, ref.key))
        if hashlib.sha256(raw).hexdigest() != ref.sha256:
            raise errors.InvalidInput(
                f"The stored content {ref.key!r} is not what the task refers to: its SHA-256 differs.",
                field="spec.contentRef.sha256",
                remedy="Store the content again and create the task with the new reference.",
            )
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise errors.InvalidInput(
                f"The stored content {ref.key!r} is not UTF-8 text.",
                field="spec.contentRef",
                remedy="Store its text.",
            ) from error


def zone(task: task_memory.TaskMemory, document: str) -> str:
    """The time zone that a task names, or else its user, the latest word first; "" where neither does. Raises
    InvalidInput for one that is none."""
    if task.time_zone:
        try:
            return time_zones.parse(task.time_zone)
        except ValueError as error:
            raise errors.InvalidInput(f"{error}.", field="spec.timeZone", remedy="Create the task anew.") from error
    said = [*(one.text for one in reversed(task.answers)), *(one.text for one in reversed(task.messages))]
    own = [*said, document] if task.asked_by_user else said
    return next(filter(None, map(time_zones.written, own)), "")


class Evidence:
    """Queries the knowledge base and builds the evidence pack."""

    def __init__(
        self, run: run_context.RunContext, *, max_results: int, context_chars: int, room: question.Room
    ) -> None:
        self._run = run
        self._task = run.task
        self._store = run.store
        self._max_results = max_results
        self._context_chars = context_chars
        self._room = room

    async def __call__(self, state: State) -> State:
        """Writes pack and left_out."""
        held = await self._run.loader.of(state)
        found = await self._found(state["query"]) if held.provisions.permits_tool(step_tools.Tool.SEARCH) else []
        document = str(await self._store.get(state["document"]))
        asked = await question_store.load(state, self._store)
        shown, main = asked.cut(self._room.most)
        middle = asked.main[main.start : main.start + main.left_out]
        own = question.own_evidence(self._task, document, middle)
        room = self._context_chars - held.characters - self._room.taken(shown)
        # Beside the loop: passages of a long text are chosen among thousands.
        fitted = await asyncio.to_thread(
            evidence_pack.fit, own, found, self._task.source, room, held.provisions, f"{state['query']}\n{shown}"
        )
        lacking = question.left_out(self._task, document, shown, fitted.gone)
        used = len(fitted.items)
        _log.info("evidence", found=len(found), used=used, rules=len(held.rules), left_out=lacking)
        return {"pack": await self._store.put(evidence_pack.dump(fitted.items), state["round"]), "left_out": lacking}

    async def _found(self, query: str) -> list[api.EvidenceItem]:
        """Passages of the task's files first, then all others."""
        asked = [api.RetrieveRequest(scope=self._task.scope, query=query, max_results=self._max_results)]
        if self._task.attachments:
            sources = [api.attachment_sources(self._task.source)]
            most = min(_ATTACHED, self._max_results)
            asked.insert(0, asked[0].model_copy(update={"sources": sources, "max_results": most}))
        items: list[api.EvidenceItem] = []
        for request in asked:
            ask = functools.partial(self._run.kb.retrieve, request, urgency=self._run.beside)
            items += (await self._run.retries.call("retrieve evidence", ask)).items
        return items


class Respond:
    """Asks the model for a structured answer and checks it against schema and evidence."""

    def __init__(self, run: run_context.RunContext, asks: model_calls.Asking, room: question.Room) -> None:
        """`asks` has the calls and tokens of the round."""
        self._run = run
        self._store = run.store
        self._asks = asks
        self._room = room

    async def __call__(self, state: State) -> State:
        """Writes answer and trail, or, where that is asked for first, intent, without an answer to what is worked on.
        Raises InvalidOutput, BudgetExhausted or Stuck."""
        items = evidence_pack.load(await self._store.get(state["pack"]))
        # What others wrote orders nothing, and what is known is not asked for again.
        asks = self._run.task.asked_by_user and intent.known(state) is None
        wanted, given = await self._answer(state, items, self._run.kinds if asks else None)
        said: State = {"intent": wanted.dump()} if wanted is not None else {}
        if given is None:
            return said
        trail: list[str] = []
        if given.needs_input:
            asked = sorted(" ".join(each.lower().split()) for each in given.questions)
            trail = repetition.note(state.get("trail", []), "ask", list(asked))
        return {
            **said,
            "answer": await self._store.put(given.model_dump(by_alias=True), state["round"]),
            "trail": trail,
        }

    async def _answer(
        self, state: State, items: tuple[evidence_pack.Item, ...], kinds: tuple[intent.Kind, ...] | None
    ) -> tuple[intent.Intent | None, model_answer.Answer | None]:
        """What is wanted, where the model is asked for it, and the answer, where it is not worked on."""
        held = await self._run.loader.of(state)
        followed = run_plan.of_round(state.get("plan"), state["round"])
        asked = (await question_store.load(state, self._store)).within(self._room.most)
        settings, provided, now = self._run.settings, held.provisions, self._run.now()
        ids = [item.id for item in items]
        sources = citations.Sources(items, own=[asked], beside=held.texts)
        attempts = citations.Tries(sources, provided)
        shown = list(ids)
        wanted: intent.Intent | None = None
        refused = False
        """Whether the latest reply was an order that is none."""
        whole = (await question_store.load(state, self._store)).text

        def read(reply: intent.Worded | intent.Ordered) -> bool:
            """Whether it is worked on. Raises Unusable."""
            nonlocal wanted, refused
            refused = True
            wanted = intent.read(reply, whole, state["round"]) if kinds is not None else None
            refused = False
            return wanted is not None and wanted.kind in (kinds or ())

        def order(reply: intent.Ordered) -> None:
            nonlocal refused
            if not read(reply):
                refused = True
                raise reading.Unusable("intent: is nothing that can be worked on here; answer the question")

        def judge(draft: model_answer.Draft) -> model_answer.Checked | None:
            if read(draft):
                return None
            given = model_answer.judged(draft, shown, provided)
            return attempts.take(given.model_copy(update={"answer": prompt_escape.restore(given.answer)}))

        def smaller() -> list[dict[str, str]]:
            # The evidence is best first, and each item keeps its number. A token is a byte at least: this fits.
            window = settings.num_ctx or _WINDOW
            about = sum(
                excerpt.size(part["content"]) for part in answer_prompt.messages(asked, (), now, held, kinds=kinds)
            )
            nearest = evidence_pack.shortened(items[:_NEAREST], window - min(model_answer.TOKENS, window // 4) - about)
            shown[:] = [item.id for item in nearest]
            return answer_prompt.messages(asked, nearest, now, held, kinds=kinds)

        try:
            given = await self._asks.shaped(
                "answer",
                f"r{state['round']}.respond",
                answer_prompt.messages(asked, items, now, held, run_plan.block(followed), kinds),
                model_answer.Draft,
                judge,
                wire=model_answer.wire(ids, provided, kinds),
                choices={"citations": ids},
                priority=settings.priority,
                model=settings.model,
                num_ctx=settings.num_ctx,
                num_predict=model_answer.TOKENS,
                smaller=smaller,
                final=True,
                ordered=order if kinds else None,
            )
        except (
            errors.BudgetExhausted,
            errors.InvalidOutput,
            router_client.Rejected,
            router_client.Unavailable,
        ) as error:
            if isinstance(error, router_client.Unauthorized):
                raise
            if attempts.last is not None:
                return wanted, attempts.last
            if not (kinds and refused and isinstance(error, errors.InvalidOutput)):
                raise
            # What orders nothing that the user has written, again and again, is one thing that is answered.
            return await self._answer(state, items, ())
        if given is None and wanted is not None:
            _log.info("ordered", intent=wanted.kind.value, not_before=wanted.not_before)
            if not wanted.at(now).answered:
                return wanted, None
            # What is said of it is the notice at the end of each answer.
            nothing = model_answer.Answer(answer="", citations=[], confidence=1, needs_input=False, questions=[])
            return wanted.at(now), nothing
        assert given is not None
        _log.info("answered", citations=given.citations, needs_input=given.needs_input)
        return wanted, given
