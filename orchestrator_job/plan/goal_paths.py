"""Which node comes next in the legacy graph, and what its state knows of goals and steps. Pure.

    advice, or an answer     evidence -> (plan -> follow ->) respond
    single_task              evidence -> * -> plan_steps -> execute_step ... -> respond
    epic                     evidence -> * -> goals -> select_goal -> plan_steps -> execute_step ... -> respond
    generative               evidence -> * -> design -> goals -> as an epic

Which of them it is says the reply to the first prompt of a run: * is `plan` where a plan is made, else `respond`. A run
that knows it before goes on without.

`execute_step` is followed by `evaluate`, or by `consent` while calls of it wait for a person; `evaluate` by the next
step, the next goal, or the answer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from orchestrator_job.model import intent
from orchestrator_job.model.intent import Kind
from orchestrator_job.store import delegation_progress
from orchestrator_job.store.graph_state import State

DESIGN, GOALS, SELECT, PLAN, EXECUTE, CONSENT, EVALUATE = (
    "design", "goals", "select_goal", "plan_steps", "execute_step", "consent", "evaluate",
)  # fmt: skip
"""Names of the nodes that only this graph has; `consent` is that of both."""
NAMES = (DESIGN, GOALS, SELECT, PLAN, EXECUTE, CONSENT, EVALUATE)
RESPOND = "respond"
DONE, FAILED, LEFT_OUT, OPEN = "done", "failed", "left_out", "open"
"""How a goal ended. Left out: one that it depends on was not done. Open: it was not begun."""


class Work(BaseModel):
    """The state's `work` of `round`. `goals` and `design` are artifact keys, `count` is the number of goals, `goal` the
    one that is worked on (from 1; 0: none), `steps` has the delegations of each goal (0: of a task without goals),
    `ended` how goals ended. `over` says why nothing more is done, `notes` what went wrong, `learned` is the artifact
    key of what the knowledge base is given."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    round: int
    goals: str = ""
    design: str = ""
    count: int = 0
    goal: int = 0
    steps: dict[int, tuple[str, ...]] = {}
    ended: dict[int, str] = {}
    over: str = ""
    notes: tuple[str, ...] = ()
    learned: str = ""

    def but(self, **changes: Any) -> dict[str, Any]:
        """With these changes, for the state. Keys of JSON objects are texts."""
        return Work.model_validate({**dict(self), **changes}).model_dump(mode="json", by_alias=True)


def work(state: State) -> Work:
    """That of the state's round; a fresh one if it has none yet."""
    found: Mapping[str, Any] = state.get("work") or {}
    return Work.model_validate(found) if found.get("round") == state["round"] else Work(round=state["round"])


def open_steps(state: State) -> list[str]:
    """The steps of this round that are still to be done, in their order."""
    states = state.get("delegation_states") or {}
    ended = ("COMPLETED", "FAILED")
    return [
        one
        for group in (state.get("execution_plan") or {}).get("groups", ())
        for one in group
        if delegation_progress.round_of(one) == state["round"] and (states.get(one) or {}).get("status") not in ended
    ]


def worked(state: State) -> bool:
    """Whether steps of this round have handed something back."""
    return any(delegation_progress.round_of(one) == state["round"] for one in state.get("completed_delegations") or ())


def after_intent(state: State, default: str) -> str:
    """Where the work begins that the reply to a prompt has ordered; `default` where it has ordered none, or where that
    is answered or begun."""
    wanted, begun = intent.of(state), (state.get("work") or {}).get("round") == state["round"]
    if not wanted.works or begun:
        return default
    return {Kind.GENERATIVE: DESIGN, Kind.EPIC: GOALS}.get(wanted.kind, PLAN)


def after_goals(state: State) -> str:
    """Without goals there is an answer, as to a question."""
    return SELECT if work(state).count else RESPOND


def after_select(state: State) -> str:
    """The goal's steps, or the answer after the last goal."""
    return PLAN if work(state).goal else RESPOND


def after_plan(state: State) -> str:
    """The next step; else the next goal, as a goal without steps has failed; else the answer."""
    here = work(state)
    if open_steps(state) and not here.over:
        return EXECUTE
    return SELECT if here.count and not here.over else RESPOND


def after_execute(state: State) -> str:
    """What was handed back is judged, or a person is asked."""
    return CONSENT if delegation_progress.interrupted(state) else EVALUATE


def follows(*, plans: bool) -> Mapping[str, tuple[tuple[str, ...], Callable[[State], str]]]:
    """Node -> the nodes that may follow it, and which of them does. The others are followed by the next one."""
    begins = (DESIGN, GOALS, PLAN)
    done: tuple[tuple[str, ...], Callable[[State], str]] = ((EXECUTE, SELECT, RESPOND), after_plan)
    return {
        "evidence": (("plan", RESPOND, *begins), functools.partial(after_intent, default="plan" if plans else RESPOND)),
        "plan": (("follow", *begins), functools.partial(after_intent, default="follow")),
        RESPOND: (("approve", *begins), functools.partial(after_intent, default="approve")),
        GOALS: ((SELECT, RESPOND), after_goals),
        SELECT: ((PLAN, RESPOND), after_select),
        PLAN: done,
        EXECUTE: ((CONSENT, EVALUATE), after_execute),
        CONSENT: ((EXECUTE,), lambda state: EXECUTE),
        EVALUATE: done,
    }
