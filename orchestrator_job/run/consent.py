"""The node `consent`: a person decides about the effects of all delegations that wait, in one request.

It is a node of its own, before and after which nothing else happens in its step: a run that ends here repeats nothing
when it resumes. A task has one open request at a time; what depends on the results of its effects comes in the next one
(docs/decisions/0197).
"""

from __future__ import annotations

from collections.abc import Sequence

from crds import approvals, exit_reasons, pendingtask
from orchestrator_job import errors, termination
from orchestrator_job.answer import model_answer
from orchestrator_job.effects import results, tool_calls
from orchestrator_job.run import run_context
from orchestrator_job.store import delegation_progress
from orchestrator_job.store.delegation_models import DelegationStatus
from orchestrator_job.store.graph_state import State

_SHOWN = 1000
"""Characters of what is shown that a status has room for; more is stored as well."""
_NONE = model_answer.Answer(answer="", citations=[], confidence=0, needs_input=False, questions=[])


class Consent:
    """Ends the run with the request for all that waits, or lets the delegations go on of which a person has decided
    something."""

    def __init__(self, run: run_context.RunContext) -> None:
        self._account = run.account_of
        self._store = run.store
        self._database = run.database
        self._guard = run.guard
        self._book = run.book

    async def __call__(self, state: State) -> State:
        """Writes delegation_states of the delegations that were decided about, or that need not wait because another
        one has done the same meanwhile; nothing when none waits. Raises NeedsApproval, with the request in
        `task_results`."""
        going: dict[str, str] = {}
        waiting: list[tuple[tool_calls.Request, str]] = []
        first: dict[str, tool_calls.Request] = {}
        """Of several agents that want the same effect, the request that a person decides about."""
        for name, key in delegation_progress.interrupted(state):
            stored = await self._store.get(key)
            # One request alone is that of a thread from before there were several.
            for found in stored if isinstance(stored, list) else [stored]:
                request = tool_calls.Request.model_validate(found)
                same = first.setdefault(request.same or request.id, request)
                if await self._decided(request, key, same):
                    going[name] = state["delegation_states"][name]["agent"]
                elif same is request:
                    waiting.append((request, key))
        if going:
            entries = {
                name: delegation_progress.entry(DelegationStatus.PENDING, agent) for name, agent in going.items()
            }
            return {"delegation_states": entries}
        if not waiting:
            return {}
        for request, key in waiting[: approvals.MOST_EFFECTS]:
            if request.unknown:
                await self._book.show(request.step, request.ordinal, request.definition)
            else:
                await self._book.record_shown(request.step, request.entry(key), request.ordinal)
        raise await self.refusal(state, [request for request, _ in waiting])

    async def refusal(self, state: State, requests: Sequence[tool_calls.Request]) -> errors.NeedsApproval:
        """What ends the run with the requests, once they are in `task_results`. Raises Fenced."""
        summary = termination.shorten(_summary(requests), pendingtask.SUMMARY_BYTES)
        waiting = [
            # What is shown is stored apart where it is long.
            one.recorded(await self._store.put(one.shown, state["round"]) if len(one.shown) > _SHOWN else "").wire()
            for one in requests
        ]
        body = await self._account.body(state, exit_reasons.ExitReason.NEEDS_APPROVAL, summary, [], _NONE)
        first = requests[0]
        await self._book.settle(
            f"{first.step}.{first.ordinal}.proposal",
            self._guard.attempt,
            results.SaveResult(self._database, self._guard, {**body, "waiting": waiting}),
        )
        remedy = "Approve them to have them done, with other arguments if need be; reject those to be left out."
        return errors.NeedsApproval(summary, remedy=remedy, stored=True, waiting=len(waiting))

    async def _decided(self, request: tool_calls.Request, key: str, first: tool_calls.Request) -> bool:
        """Whether a person has decided about it, or about the same of another agent in the same way; or it was done."""
        if request.unknown:
            return await self._book.resolved(request.step, request.ordinal)
        if await tool_calls.needless(request, self._book):
            return True
        what = request.entry(key)
        if await self._book.verdict(request.step, what, request.ordinal) is not None:
            return True
        decided = await self._book.decided(first.step, first.ordinal) if first is not request else None
        if decided is None or decided.verdict is not pendingtask.Verdict.REJECTED:
            # One that was approved is done once; then this one is needless.
            return decided is not None and not decided.arguments
        await self._book.adopt(request.step, what, request.ordinal, decided)
        return True


def _summary(requests: Sequence[tool_calls.Request]) -> str:
    if len(requests) == 1:
        [one] = requests
        asks = one.why if one.unknown else f"{one.agent} asks for approval of {one.tool}. {one.why}"
        return f"{asks}\n{one.shown}"
    lines = [f"{number}. {one.shown.partition(chr(10))[0]} ({one.why})" for number, one in enumerate(requests, 1)]
    return "\n".join([f"{len(requests)} effects wait for approval.", *lines])
