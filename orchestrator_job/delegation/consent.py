"""The node `consent`: a person decides about one call of a delegation that waits for it.

It is a node of its own, before and after which nothing else happens in its step: a run that ends here repeats nothing
when it resumes. One request at a time: a person decides on what will be done now, and the answer may change what the
other delegations want (docs/decisions/0136).
"""

from __future__ import annotations

from crds import approvals, exits, pendingtask
from orchestrator_job import answer, artifacts, ending, errors, fence, ledger, mongo, results, termination
from orchestrator_job.delegation import acting, progress
from orchestrator_job.delegation.models import DelegationStatus
from orchestrator_job.state import State

_SHOWN = 1000
"""Characters of what is shown that a status has room for; more is stored as well."""
_NONE = answer.Answer(answer="", citations=[], confidence=0, needs_input=False, questions=[])


class Consent:
    """Ends the run with the request of the first delegation that waits, or lets it go on as the person decided."""

    def __init__(
        self,
        account_of: ending.Account,
        store: artifacts.Artifacts,
        database: mongo.Database,
        guard: fence.Fence,
        book: ledger.Ledger,
    ) -> None:
        self._account = account_of
        self._store = store
        self._database = database
        self._guard = guard
        self._book = book

    async def __call__(self, state: State) -> State:
        """Writes delegation_states of the delegation that was decided about; nothing when none waits. Raises
        NeedsApproval, with the request in `task_results`."""
        waiting = progress.interrupted(state)
        if waiting is None:
            return {}
        name, key = waiting
        request = acting.Request.model_validate(await self._store.get(key))
        what = {"tool": request.tool, "aims": request.aims, "request": key}
        decided = await self._book.decide(request.step, what, request.ordinal)
        if decided is not None:
            agent = state["delegation_states"][name]["agent"]
            return {"delegation_states": {name: progress.entry(DelegationStatus.PENDING, agent)}}
        sentence = f"{request.agent} asks for approval of {request.tool}. {request.why}\n{request.shown}"
        error = errors.NeedsApproval(
            termination.shorten(sentence, pendingtask.SUMMARY_BYTES),
            remedy="Approve it to have it done, with other arguments if need be; reject it to have it left out.",
            action=approvals.Wanted(
                tool=request.tool,
                connection=request.aims.get("connection", ""),
                agent=request.agent,
                arguments=request.arguments,
                shown=request.shown,
                why=request.why,
            ),
        )
        await self.record(state, error, f"{request.step}.{request.ordinal}")
        raise error

    async def record(self, state: State, error: errors.NeedsApproval, step: str = "") -> None:
        """Write the action into `task_results`, and what is shown of it apart where it is long; `error` says so then.
        Raises Fenced."""
        assert error.action is not None
        shown = error.action.shown
        key = await self._store.put(shown, state["round"]) if len(shown) > _SHOWN else ""
        error.action = error.action.model_copy(update={"details_ref": key})
        summary = termination.shorten(error.message, pendingtask.SUMMARY_BYTES)
        body = await self._account.body(state, exits.ExitReason.NEEDS_APPROVAL, summary, [], _NONE)
        await self._book.settle(
            f"{step or state['active_delegation_id']}.proposal",
            self._guard.attempt,
            results.SaveResult(self._database, self._guard, {**body, "action": error.action.wire()}),
        )
        error.stored = True
