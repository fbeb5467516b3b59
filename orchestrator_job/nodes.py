"""The four nodes of the graph. Each takes what it needs by name, reads the small state and returns what changes in it.

A node may be repeated from its start when the process died in it: intake, evidence and respond only read and store
content under its own hash; finalize acts through the ledger.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from datetime import datetime

import structlog

from crds import exits, pendingtask, priority
from kb import client as kb_client
from kb import wire, writing
from orchestrator_job import (
    account,
    answer,
    artifacts,
    errors,
    fence,
    ledger,
    memory,
    mongo,
    pack,
    patience,
    prompt,
    question,
    results,
    standing,
    stuck,
    termination,
)
from orchestrator_job.state import State
from router import client as router_client

_log = structlog.get_logger("orchestrator_job.nodes")

_ATTACHED = 3
"""Passages of the task's own files that stand before everything else."""
RETRIES = 2
"""How often the model is told what was wrong with its answer before the run ends as InvalidOutput."""


class Intake:
    """Loads the rules, what is known about the user, and the task's text, and says what is asked."""

    def __init__(
        self,
        task: memory.TaskMemory,
        kb: kb_client.Client,
        store: artifacts.Artifacts,
        insistence: patience.Patience,
        loader: standing.Loader,
    ) -> None:
        self._task = task
        self._kb = kb
        self._store = store
        self._insistence = insistence
        self._loader = loader

    async def __call__(self, state: State) -> State:
        """Writes standing, document, question and query; raises InvalidInput for content or rules that are unusable."""
        held = await self._loader.load(state["round"])
        document = await self._text()
        if not document.strip():
            raise errors.InvalidInput("The task's content is blank.", field="spec.content", remedy="Write what to do.")
        return {
            "standing": held,
            "document": await self._store.put(document, state["round"]),
            "question": question.ask(self._task, document),
            "query": question.query(self._task, document),
        }

    async def _text(self) -> str:
        ref = self._task.content_ref
        if ref is None:
            return self._task.content or ""
        raw = await self._insistence.insist("fetch content", lambda: self._kb.fetch(self._task.scope, ref.key))
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
                f"The stored content {ref.key!r} is no UTF-8 text.",
                field="spec.contentRef",
                remedy="Store the text of it.",
            ) from error


class Evidence:
    """Asks the knowledge base and builds the evidence pack."""

    def __init__(
        self,
        task: memory.TaskMemory,
        kb: kb_client.Client,
        store: artifacts.Artifacts,
        insistence: patience.Patience,
        loader: standing.Loader,
        *,
        urgency: priority.Priority,
        max_results: int,
        context_chars: int,
    ) -> None:
        self._task = task
        self._kb = kb
        self._store = store
        self._insistence = insistence
        self._loader = loader
        self._urgency = urgency
        self._max_results = max_results
        self._context_chars = context_chars

    async def __call__(self, state: State) -> State:
        """Writes pack."""
        held = await self._loader.of(state)
        found = await self._found(state["query"])
        document = str(await self._store.get(state["document"]))
        own = question.own_evidence(self._task, document)
        room = self._context_chars - held.characters
        items = pack.build(own, found, self._task.source, room, held.provisions)
        _log.info("evidence", found=len(found), used=len(items), rules=len(held.rules))
        return {"pack": await self._store.put(pack.dump(items), state["round"])}

    async def _found(self, query: str) -> list[wire.EvidenceItem]:
        """What came with the task first, then everything else."""
        asked = [wire.RetrieveRequest(scope=self._task.scope, query=query, max_results=self._max_results)]
        if self._task.attachments:
            sources = [writing.attachment_sources(self._task.source)]
            most = min(_ATTACHED, self._max_results)
            asked.insert(0, asked[0].model_copy(update={"sources": sources, "max_results": most}))
        items: list[wire.EvidenceItem] = []
        for request in asked:
            ask = functools.partial(self._kb.retrieve, request, urgency=self._urgency)
            items += (await self._insistence.insist("retrieve evidence", ask)).items
        return items


class Respond:
    """Asks the model for a structured answer and holds it to the schema and the evidence."""

    def __init__(
        self,
        router: router_client.Client,
        store: artifacts.Artifacts,
        guard: fence.Fence,
        insistence: patience.Patience,
        loader: standing.Loader,
        *,
        model: str,
        urgency: priority.Priority,
        num_ctx: int | None,
        max_llm_calls: int,
        now: Callable[[], datetime],
    ) -> None:
        self._router = router
        self._store = store
        self._guard = guard
        self._insistence = insistence
        self._loader = loader
        self._model = model
        self._urgency = urgency
        self._num_ctx = num_ctx
        self._max_llm_calls = max_llm_calls
        self._now = now

    async def __call__(self, state: State) -> State:
        """Writes answer and trail; raises InvalidOutput, BudgetExhausted or Stuck."""
        items = pack.load(await self._store.get(state["pack"]))
        given = await self._answer(state, items)
        trail: list[str] = []
        if given.needs_input:
            asked = sorted(" ".join(each.lower().split()) for each in given.questions)
            trail = stuck.note(state.get("trail", []), "ask", list(asked))
        return {"answer": await self._store.put(given.model_dump(by_alias=True), state["round"]), "trail": trail}

    async def _answer(self, state: State, items: tuple[pack.Item, ...]) -> answer.Answer:
        held = await self._loader.of(state)
        talk = prompt.messages(state["question"], items, self._now().date(), held)
        provided = held.provisions
        ids = [item.id for item in items]
        problem = ""
        for tries in range(1 + RETRIES):
            booked = await self._guard.reserve_call(state["round"], self._max_llm_calls)
            text = await self._insistence.insist("ask the model", functools.partial(self._chat, talk))
            try:
                given = answer.parse(text, ids, provided)
            except answer.Unusable as error:
                problem = str(error)
                _log.warning("answer.unusable", tries=tries + 1, problem=problem)
                talk = [*talk, {"role": "assistant", "content": text}, prompt.correction(problem)]
                continue
            _log.info("answered", calls=booked, citations=given.citations, needs_input=given.needs_input)
            return given.model_copy(update={"answer": prompt.restore(given.answer)})
        raise errors.InvalidOutput(
            f"Model {self._model!r} gave no usable answer in {1 + RETRIES} tries: {problem}",
            remedy="Run the task again, or choose a model that follows a JSON schema.",
        )

    async def _chat(self, talk: list[dict[str, str]]) -> str:
        return await self._router.chat(self._model, talk, self._urgency, answer.schema(), self._num_ctx)


class Finalize:
    """Writes the result and the session memory through the ledger and puts the outcome into the state."""

    def __init__(
        self,
        task: memory.TaskMemory,
        database: mongo.Database,
        store: artifacts.Artifacts,
        guard: fence.Fence,
        book: ledger.Ledger,
        loader: standing.Loader,
        *,
        model: str,
        now: Callable[[], datetime],
    ) -> None:
        self._task = task
        self._database = database
        self._store = store
        self._guard = guard
        self._book = book
        self._loader = loader
        self._model = model
        self._now = now

    async def __call__(self, state: State) -> State:
        """Writes finished, exit_reason, summary and questions; raises Fenced or MayHaveHappened."""
        given = answer.Answer.model_validate(await self._store.get(state["answer"]))
        items = pack.load(await self._store.get(state["pack"]))
        held = await self._loader.of(state)
        reason = exits.ExitReason.NEEDS_INPUT if given.needs_input else exits.ExitReason.ANSWERED
        asked = given.questions if given.needs_input else []
        questions = [{"id": f"r{state['round']}-q{n}", "text": text} for n, text in enumerate(asked, start=1)]
        summary = termination.shorten(
            " ".join(["Needs to know:", *asked]) if given.needs_input else given.answer, pendingtask.SUMMARY_BYTES
        )
        body = {
            "exitReason": reason.value,
            "summary": summary,
            "answer": given.answer,
            "citations": given.citations,
            "confidence": given.confidence,
            "questions": questions,
            "evidence": [item.model_dump(by_alias=True) for item in items],
            "rules": [rule.model_dump(by_alias=True, exclude={"content"}) for rule in held.rules],
            "question": state["question"],
            "model": self._model,
            "round": state["round"],
            "correlationId": self._task.correlation_id,
            **account.of(self._task, items, given.citations),
            "createdAt": self._now(),
        }
        step = f"r{state['round']}.finalize"
        source = "chat" if self._task.mode is pendingtask.Mode.FOREGROUND else "background"
        await self._book.settle(step, 0, results.SaveResult(self._database, self._guard, body))
        await self._book.settle(
            step,
            1,
            results.RememberSession(
                self._database, self._task.scope, self._task.task_uid, source, summary, self._now()
            ),
        )
        return {
            "finished": state["round"],
            "exit_reason": reason.value,
            "summary": summary,
            "questions": questions,
        }
