"""What a run hands back that a budget ends before there is an answer: what was found, what is missing, and the limit.

Nothing of it needs a model, a step or the knowledge base: it is put together from the last checkpoint, beside the
graph, in the time that is kept for it. The thread stays as it is: with a raised budget the next run goes on from there,
and writes its own result over this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from crds import pendingtask
from orchestrator_job import errors, outcome, termination
from orchestrator_job.answer import evidence_pack, model_answer
from orchestrator_job.effects import results
from orchestrator_job.plan import goal_paths
from orchestrator_job.run import run_context
from orchestrator_job.store import delegation_progress
from orchestrator_job.store.graph_state import State

SECONDS = 5.0
"""Most time for it, after the run's own; half of what is left until the Job's deadline where that is less."""
_TITLES = 20
_TITLE_CHARS = 200
_OTHERS = ("RAG", "Graph")
"""Origins of evidence that was retrieved; the other origins are the task's own texts."""
_MADE = ("answer", "plan", "work", "execution_plan", "completed_delegations")
"""Keys of the state that lead to what models have written: answer, plan, goals, reports, and changed files."""


class HandBack:
    """Of one task. Its document goes into `task_results`, as any result does."""

    def __init__(self, run: run_context.RunContext) -> None:
        self._account = run.account_of
        self._store = run.store
        self._database = run.database
        self._guard = run.guard
        self._book = run.book

    async def save(self, state: State, error: errors.Failure, found: Sequence[evidence_pack.Item] = ()) -> bool:
        """Write what there is of the state's round; False where there is nothing yet. `found`: the evidence of a node
        that has not ended. Raises Fenced, and StoreUnavailable once the retries end."""
        if not state.get("question"):
            return False
        number = state["round"]
        if found and not state.get("pack"):
            state = {**state, "pack": await self._store.put(evidence_pack.dump(found), number)}
        if (await self._account.rules(state)).provisions.needs_approval:
            # The rule holds for a part of an answer too, and for what it would have been written from.
            state, text = _retrieved(state), ""
        else:
            text = await self._text(state)
        given = model_answer.Answer(
            answer="\n\n".join([text, error.message]).strip(),
            citations=[], confidence=0, needs_input=False, questions=[],
        )  # fmt: skip
        summary = termination.shorten(outcome.of_error(error).summary, pendingtask.SUMMARY_BYTES)
        body = await self._account.body({**state, "approval": {}}, error.reason, summary, [], given)
        await self._book.settle(
            f"r{number}.handback", self._guard.epoch, results.SaveResult(self._database, self._guard, body)
        )
        return True

    async def _text(self, state: State) -> str:
        if state.get("answer"):
            return (await self._account.answer(state)).answer
        if _planned(state):
            return await self._reports(state)
        items = evidence_pack.load(await self._store.get(state["pack"])) if state.get("pack") else ()
        found = [item.title or item.source for item in items if item.origin in _OTHERS]
        if not found:
            return "No answer was written, and nothing was found yet."
        titles = [f"- {' '.join(one.split())[:_TITLE_CHARS]}" for one in found[:_TITLES]]
        more = [f"- and {len(found) - _TITLES} more"] if len(found) > _TITLES else []
        return "\n".join(["No answer was written. Found:", *titles, *more])

    async def _reports(self, state: State) -> str:
        """What delegations have handed back and done outside, and what of the plan is missing."""
        # A run that does not delegate ends without them.
        from orchestrator_job.plan import goal_steps
        from orchestrator_job.run import synthesis

        done = await self._book.effects(state["round"] + 1, state["round"])
        receipts = ((one["intent"]["tool"], one.get("result") or {}) for one in done)
        lines = [f"- {tool}: {receipt.get('text', 'done')}" for tool, receipt in receipts if not receipt.get("skipped")]
        effects = "\n".join(["\n\nDone outside:", *lines]) if lines else ""
        unreached = goal_steps.unreached(self._store) if goal_paths.work(state).count else None
        merged = await synthesis.merged_of(self._store, state, unreached)
        return f"{synthesis.plainly(merged, ()).answer}{effects}"


def _retrieved(state: State) -> State:
    """The state without what models have made in it: what is left to hand back is the evidence."""
    return cast("State", {key: value for key, value in state.items() if key not in _MADE})


def _planned(state: State) -> bool:
    """Whether the round has a plan of delegations."""
    groups = (state.get("execution_plan") or {}).get("groups", ())
    return any(delegation_progress.round_of(one) == state["round"] for group in groups for one in group)
