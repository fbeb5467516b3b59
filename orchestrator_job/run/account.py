"""What `task_results` has of a round: its answer with the evidence, what was delegated, what it means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from crds import approvals, exit_reasons
from orchestrator_job.answer import evidence_pack, model_answer
from orchestrator_job.answer.model_answer import Answer
from orchestrator_job.context import rules_loader, significance
from orchestrator_job.effects import ledger, ledger_entries, patches
from orchestrator_job.model import intent, rules_context
from orchestrator_job.plan import goal_paths, run_plan
from orchestrator_job.store import artifacts, delegation_models, delegation_progress, task_memory
from orchestrator_job.store.graph_state import State


class Account:
    """Builds the document of a round for `task_results`."""

    def __init__(
        self,
        task: task_memory.TaskMemory,
        store: artifacts.Artifacts,
        loader: rules_loader.Loader,
        book: ledger.Ledger,
        changes: patches.Patches,
        *,
        model: str,
        now: Callable[[], datetime],
    ) -> None:
        self._changes = changes
        self._task = task
        self._store = store
        self._loader = loader
        self._book = book
        self._model = model
        self._now = now

    async def answer(self, state: State) -> model_answer.Checked:
        """The validated answer of this round."""
        return model_answer.Checked.model_validate(await self._store.get(state["answer"]))

    async def rules(self, state: State) -> rules_context.Standing:
        """The rules of this round."""
        return await self._loader.of(state)

    async def body(
        self,
        state: State,
        reason: exit_reasons.ExitReason,
        summary: str,
        questions: list[dict[str, str]],
        given: Answer | None = None,
    ) -> dict[str, Any]:
        """The document, without a rejected answer and its steps. `given` in place of the round's answer: that of a
        round which has none yet."""
        given = given if given is not None else await self.answer(state)
        # A round that a budget ends may not have searched yet.
        items = evidence_pack.load(await self._store.get(state["pack"])) if state.get("pack") else ()
        held = await self.rules(state)
        planned = run_plan.of_round(state.get("plan"), state["round"])
        rejected = reason is exit_reasons.ExitReason.REJECTED
        outputs = await self._outputs(state)
        worked = bool(goal_paths.work(state).learned)
        delegated = await self._delegated(state, outputs, rejected=rejected) if outputs and not worked else None
        found: Mapping[str, Any] = significance.of(self._task, items, () if rejected else given.citations, delegated)
        return {
            "exitReason": reason.value,
            "summary": summary,
            "answer": "" if rejected else given.answer,
            "citations": [] if rejected else given.citations,
            "confidence": given.confidence,
            "misquoted": [] if rejected else _misquoted(given),
            "questions": questions,
            "evidence": [item.model_dump(by_alias=True) for item in items],
            "rules": [rule.model_dump(by_alias=True, exclude={"content"}) for rule in held.rules],
            "question": state["question"],
            "leftOut": state.get("left_out") or [],
            "plan": run_plan.dump(planned) if planned is not None else None,
            "model": state.get("model") or self._model,
            "round": state["round"],
            "correlationId": self._task.correlation_id,
            "messagesRead": len(self._task.messages),
            "approval": state.get("approval") or None,
            # A result is written over the one before, which may have asked for the approval of effects.
            "waiting": [],
            "effects": [_done(name, allowed) for name, allowed in await self._book.done()],
            "about": "",
            **_handed_back(outputs, await self._changed(state)),
            **found,
            **({} if rejected else await self._worked(state, found, outputs)),
            "createdAt": self._now(),
        }

    async def _worked(self, state: State, found: Mapping[str, Any], outputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Category, action, goals and steps of a round that was worked on; nothing for one that was answered."""
        work = goal_paths.work(state)
        if not work.learned:
            return {}
        learned: Any = await self._store.get(work.learned)
        goals: Any = await self._store.get(work.goals) if work.goals else []
        ended = [work.ended.get(number, goal_paths.OPEN) for number in range(1, len(goals) + 1)]
        return {
            "taskCategory": intent.of(state).category.value,
            "taskAction": significance.action(outputs, await self._effects(state)),
            "goals": [{"title": one["title"], "state": how} for one, how in zip(goals, ended, strict=True)],
            "stepResults": [*learned, *found["stepResults"]],
        }

    async def _outputs(self, state: State) -> list[dict[str, Any]]:
        """What the round's delegations handed back, in the order of their ids; nothing for a round that has none."""
        outputs: list[dict[str, Any]] = []
        for name in state.get("completed_delegations") or ():
            if delegation_progress.round_of(name) == state["round"]:
                output: Any = await self._store.get(state["delegation_results"][name])
                outputs.append(output)
        return sorted(outputs, key=lambda one: str(one["delegationId"]))

    async def _changed(self, state: State) -> list[dict[str, Any]]:
        """Of the workspaces of all rounds; a task that never had a plan has none."""
        return await self._changes.handed_back(state["round"]) if state.get("execution_plan") else []

    async def _effects(self, state: State) -> Sequence[Mapping[str, Any]]:
        """Entries of the ledger about effects of this round that are done."""
        return await self._book.effects(state["round"] + 1, state["round"])

    async def _delegated(
        self, state: State, outputs: list[dict[str, Any]], *, rejected: bool
    ) -> significance.Delegated:
        made = delegation_models.ExecutionPlan.model_validate(await self._store.get(state["execution_plan"]["key"]))
        return significance.Delegated(
            category=intent.of(state).category,
            tasks={one.delegation_id: one.task_summary for one in made.delegations},
            outputs=outputs,
            effects=await self._effects(state),
            # What a rejected answer was written from is withheld with it.
            states={} if rejected else state["delegation_states"],
        )


def _done(name: str, allowed: ledger_entries.Allowed) -> dict[str, Any]:
    """An effect that was done, and what allowed it."""
    done = approvals.Done(
        id=name,
        tool=allowed["tool"],
        connection=allowed["connection"],
        targets=tuple(allowed["targets"]),
        allowed_by=approvals.AllowedBy(allowed["by"]),
        permit=allowed["name"],
    )
    return done.wire()


def _misquoted(given: Answer) -> list[dict[str, Any]]:
    """What the model quoted wrongly, and what became of it; nothing for an answer that quotations are not looked up
    in."""
    return [one.model_dump(mode="json") for one in given.misquoted] if isinstance(given, model_answer.Checked) else []


def _handed_back(outputs: list[dict[str, Any]], changes: list[dict[str, Any]]) -> dict[str, Any]:
    """The fields of a result about what delegations handed back, without their texts, and what became of the files that
    were changed."""
    patched = [str(one["patch"]) for one in changes if one["patch"]]
    if not outputs:
        return {"changes": changes, **({"artifacts": patched} if patched else {})}
    kept = ("delegationId", "agentName", "success", "confidence", "needsVerification", "artifacts", "changedFiles")
    files = dict.fromkeys(path for one in outputs for path in one["changedFiles"])
    made = dict.fromkeys([*(key for one in outputs for key in one["artifacts"]), *patched])
    shown = [{key: one[key] for key in (*kept, "subDelegations")} for one in outputs]
    return {"delegations": shown, "artifacts": list(made), "changedFiles": list(files), "changes": changes}
