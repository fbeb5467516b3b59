"""The nodes that end a round: a person's approval if a rule requires one, then the result.

Approval is a separate node: a run that stops there repeats no other step when it resumes. Both act through the ledger.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from crds import exit_reasons, pendingtask
from orchestrator_job import errors, termination
from orchestrator_job.answer import model_answer
from orchestrator_job.context import conversation
from orchestrator_job.effects import ledger_entries, results
from orchestrator_job.run import rounds, run_context
from orchestrator_job.store import task_memory_reader
from orchestrator_job.store.graph_state import State

Learn = Callable[[State, bool], Awaitable[None]]
_KEY_CHARS = 16
"""Characters of the answer's hash in a key; different for two answers of one round."""


class Approval:
    """Stops a round whose rules require approval, until a person has approved exactly this answer."""

    def __init__(self, run: run_context.RunContext) -> None:
        self._account = run.account_of
        self._database = run.database
        self._guard = run.guard
        self._book = run.book

    async def __call__(self, state: State) -> State:
        """Writes approval; raises NeedsApproval, with the proposed answer in `task_results`."""
        given = await self._account.answer(state)
        held = await self._account.rules(state)
        if given.needs_input or not held.provisions.needs_approval:
            return {"approval": {}}
        # The answer's hash is part of the key: an approval counts for this answer only.
        step = f"r{state['round']}.approval.{state['answer'][:_KEY_CHARS]}"
        decided = await self._book.decide(step, {"answer": state["answer"]})
        if decided is not None:
            return {"approval": decided.wire()}
        sentence = f"A rule requires a person's approval before this answer is given: {given.answer}"
        summary = termination.shorten(sentence, pendingtask.SUMMARY_BYTES)
        body = await self._account.body({**state, "approval": {}}, exit_reasons.ExitReason.NEEDS_APPROVAL, summary, [])
        about = ledger_entries.about(step, 0)
        await self._book.settle(
            f"{step}.proposal",
            self._guard.attempt,
            results.SaveResult(self._database, self._guard, {**body, "about": about}),
        )
        raise errors.NeedsApproval(
            summary, remedy="Approve it to give the answer, reject it to withhold it.", stored=True, about=about
        )


class Finalize:
    """Writes the result and the session memory through the ledger and puts the outcome into the state."""

    def __init__(self, run: run_context.RunContext, learn: Learn | None = None) -> None:
        """`learn` is given the state of a round that has ended, and whether its answer was given."""
        self._task = run.task
        self._learn = learn
        self._talk = conversation.Conversation(run.database, run.task, run.now)
        self._account = run.account_of
        self._database = run.database
        self._guard = run.guard
        self._book = run.book
        self._now = run.now

    async def __call__(self, state: State) -> State:
        """Writes finished, exit_reason, summary and questions; raises Overtaken before anything is written, Fenced or
        MayHaveHappened."""
        await self._check(state)
        given = await self._account.answer(state)
        reason, words = _end(given, state.get("approval") or {})
        asked = given.questions if reason is exit_reasons.ExitReason.NEEDS_INPUT else []
        questions = [{"id": f"r{state['round']}-q{n}", "text": text} for n, text in enumerate(asked, start=1)]
        summary = termination.shorten(words, pendingtask.SUMMARY_BYTES)
        body = await self._account.body(state, reason, summary, questions)
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
        if self._talk.there:
            said = " ".join([given.answer, *asked]) if asked else words
            await self._book.settle(step, 2, self._talk.remember(self._guard, state["question"], said))
        if self._learn is not None:
            await self._learn(state, reason is exit_reasons.ExitReason.ANSWERED)
        return {
            "finished": state["round"],
            "exit_reason": reason.value,
            "summary": summary,
            "questions": questions,
        }

    async def _check(self, state: State) -> None:
        try:
            found = await task_memory_reader.load(self._database, self._task.task_uid)
        except errors.InvalidInput:
            # Unusable, or removed, which the first write notices.
            return
        if found.digest() != state["digest"]:
            raise rounds.Overtaken


def _end(given: model_answer.Answer, approval: Mapping[str, Any]) -> tuple[exit_reasons.ExitReason, str]:
    """The exit reason of a round and its summary for people."""
    if given.needs_input:
        return exit_reasons.ExitReason.NEEDS_INPUT, " ".join(["Needs to know:", *given.questions])
    if approval.get("verdict") == pendingtask.Verdict.REJECTED:
        why = f": {approval['comment']}" if approval.get("comment") else "."
        return (
            exit_reasons.ExitReason.REJECTED,
            f"The answer is withheld. Rejected by {approval.get('author') or 'a user'}{why}",
        )
    return exit_reasons.ExitReason.ANSWERED, given.answer
