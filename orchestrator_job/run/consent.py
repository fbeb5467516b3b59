"""The node `consent`: a person decides about one call of a delegation that waits for it.

It is a node of its own, before and after which nothing else happens in its step: a run that ends here repeats nothing
when it resumes. One request at a time: a person decides on what will be done now, and the answer may change what the
other delegations want (docs/decisions/0136).
"""

from __future__ import annotations

from crds import approvals, exit_reasons, pendingtask, permits
from orchestrator_job import errors, termination
from orchestrator_job.answer import model_answer
from orchestrator_job.effects import ledger_entries, results, tool_calls
from orchestrator_job.run import run_context
from orchestrator_job.store import delegation_progress
from orchestrator_job.store.delegation_models import DelegationStatus
from orchestrator_job.store.graph_state import State

_SHOWN = 1000
"""Characters of what is shown that a status has room for; more is stored as well."""
_NONE = model_answer.Answer(answer="", citations=[], confidence=0, needs_input=False, questions=[])


class Consent:
    """Ends the run with the request of the first delegation that waits, or lets it go on as the person decided."""

    def __init__(self, run: run_context.RunContext) -> None:
        self._account = run.account_of
        self._store = run.store
        self._database = run.database
        self._guard = run.guard
        self._book = run.book

    async def __call__(self, state: State) -> State:
        """Writes delegation_states of the delegation that was decided about, or that need not wait because another one
        has done the same meanwhile; nothing when none waits. Raises NeedsApproval, with the request in `task_results`.
        """
        waiting = delegation_progress.interrupted(state)
        if waiting is None:
            return {}
        name, key = waiting
        request = tool_calls.Request.model_validate(await self._store.get(key))
        if await tool_calls.needless(request, self._book) or await self._decided(request, key):
            agent = state["delegation_states"][name]["agent"]
            return {"delegation_states": {name: delegation_progress.entry(DelegationStatus.PENDING, agent)}}
        raise await self.refusal(state, request)

    async def refusal(self, state: State, request: tool_calls.Request) -> errors.NeedsApproval:
        """What ends the run with the request, once that is in `task_results`. Raises Fenced."""
        if request.unknown:
            sentence, remedy = request.why, None
        else:
            sentence = f"{request.agent} asks for approval of {request.tool}. {request.why}"
            remedy = "Approve it to have it done, with other arguments if need be; reject it to have it left out."
        summary = termination.shorten(f"{sentence}\n{request.shown}", pendingtask.SUMMARY_BYTES)
        # What is shown is stored apart where it is long.
        long = len(request.shown) > _SHOWN
        about = ledger_entries.about(request.step, request.ordinal)
        waiting = approvals.Recorded(
            id=about,
            tool=permits.tool_name(request.tool),
            connection=request.aims.get("connection", ""),
            agent=request.agent,
            arguments=request.arguments,
            shown=request.shown,
            why=request.why,
            details_ref=await self._store.put(request.shown, state["round"]) if long else "",
        )
        body = await self._account.body(state, exit_reasons.ExitReason.NEEDS_APPROVAL, summary, [], _NONE)
        await self._book.settle(
            f"{request.step}.{request.ordinal}.proposal",
            self._guard.attempt,
            results.SaveResult(self._database, self._guard, {**body, "waiting": [waiting.wire()]}),
        )
        return errors.NeedsApproval(summary, remedy=remedy, stored=True, waiting=1)

    async def _decided(self, request: tool_calls.Request, key: str) -> bool:
        """Whether a person has decided; else the ledger has the request now, under its artifact key."""
        if request.unknown:
            return await self._book.resolved(request.step, request.ordinal, request.definition)
        return await self._book.decide(request.step, request.entry(key), request.ordinal) is not None
