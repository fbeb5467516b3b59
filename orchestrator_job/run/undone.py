"""What an order wants to have sent or changed and this task has not done: at the end of its answer, with why, and with
what would do it.

What is wanted is the word of a model (`model.intent`), what was done is the ledger's, and why is known from settings,
rules and budget. The notice is written in English and translated by the run's model into the language of the task;
where it cannot be, or loses a name, it stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import structlog

import crds.errors
from contracts.rules import time_zones
from orchestrator_job.answer import model_answer
from orchestrator_job.context import significance
from orchestrator_job.model import intent, model_calls, prompt_escape, prompts, rules_context
from orchestrator_job.plan import goal_paths, plan_delegations
from orchestrator_job.run import run_context
from orchestrator_job.store.graph_state import Node, State
from router import client as router_client
from router.client import reading
from text import language

_log = structlog.get_logger("orchestrator_job.run.undone")
PROMPT = "undone.v1"
UNAVAILABLE_SECONDS = 10.0
"""How long a translation waits for a model that is busy or away."""
_TOKENS = 512
_ALSO = {"sendInvitation": ("sendMail",)}
"""By which other name the ledger has an effect."""
_LITERAL = re.compile(r"`[^`]+`")


class Concluded:
    """A node that writes an answer, with the notice at the end of it. `asks` waits for UNAVAILABLE_SECONDS at most."""

    def __init__(self, run: run_context.RunContext, node: Node, asks: model_calls.Asking) -> None:
        self._run = run
        self._node = node
        self._asks = asks

    async def __call__(self, state: State) -> State:
        """Writes what the node writes. Raises as the node does."""
        changed = await self._node(state)
        after: State = {**state, **changed}
        wanted = intent.of(after)
        later = wanted.not_before if wanted.later(self._run.now()) else None
        if not (wanted.effects or later) or "answer" not in changed:
            return changed
        run, number = self._run, state["round"]
        given = model_answer.Checked.model_validate(await run.store.get(changed["answer"]))
        missing = left(wanted.effects, await run.book.effects(number + 1))
        if given.needs_input or not (missing or later):
            return changed
        held = await run.loader.of(after)
        if later is not None:
            why = for_later(later, held)
        else:
            why = reasons(missing, run, held, worked=goal_paths.worked(after), rejected=await run.book.rejects(number))
        listed = [f"- {name}: “{wanted.sentence}”" for name in missing or [wanted.kind.value]]
        said = "\n".join([await self._spoken(" ".join(why), after), *listed])
        if held.provisions.objection(said, cites=True, final=False) is not None:
            _log.warning("a rule keeps back what was not done", effects=missing)
            return changed
        _log.info("undone", effects=missing)
        ended = given.model_copy(update={"answer": f"{given.answer}\n\n{said}".strip()})
        return {**changed, "answer": await run.store.put(ended.model_dump(by_alias=True), number)}

    async def _spoken(self, text: str, state: State) -> str:
        """The notice in the language of the task."""
        run = self._run
        document = str(await run.store.get(state["document"]))
        spoken = plan_delegations.spoken_language(run.task, document)
        if spoken == language.DEFAULT:
            return text
        asked = f"Language: {spoken}\n<document>\n{prompt_escape.defuse(text)}\n</document>"
        try:
            reply = await self._asks.ask(
                f"r{state['round']}.undone",
                [{"role": "system", "content": prompts.tagged(PROMPT)}, {"role": "user", "content": asked}],
                priority=run.settings.priority,
                model=run.settings.model,
                num_predict=_TOKENS,
                final=True,
                think=False,
            )
        except router_client.Unauthorized:
            raise
        except crds.errors.JervisError as error:
            _log.warning("the notice is not translated", reason=error.message)
            return text
        said = reading.plain(prompt_escape.restore(reply.text))
        whole = not reply.cut and sorted(_LITERAL.findall(said)) == sorted(_LITERAL.findall(text))
        return said if whole else text


def left(effects: Sequence[str], entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Those of the effects that are wanted which no entry of the ledger has done."""
    tools = {str(one["intent"]["tool"]) for one in entries if significance.happened(one)}
    done = {name for name in intent.EFFECTS if {name, _tool(name), *_ALSO.get(name, ())} & tools}
    others = tools.difference(intent.EFFECTS, map(_tool, intent.EFFECTS))
    return [name for name in effects if name not in done and not (name == intent.OTHER and others)]


def reasons(
    missing: Sequence[str], run: run_context.RunContext, held: rules_context.Standing, *, worked: bool, rejected: bool
) -> list[str]:
    """Why that was not done, and what would do it, in English sentences with names between backticks. `worked`: agents
    were at work."""
    settings, limits = run.settings, run.limits
    said = ["Not done, although it was asked for:"]
    forbidden = [name for name in missing if not held.provisions.permits_tool(_tool(name))]
    if forbidden:
        names = ", ".join(f"`{_tool(name)}`" for name in forbidden)
        return [*said, f"a rule forbids {names}. Change the rule (`enforce: never-use-tool`) to have it done."]
    if not (limits.delegations and limits.depth):
        fields = "`spec.budget.maxDelegations`, `spec.budget.maxDepth` or `JERVIS_MAX_DELEGATIONS`"
        return [*said, f"this task may not use agents, because {fields} is 0. Raise it to have it done."]
    if not settings.sources_url and any(name in significance.AT_CONNECTIONS for name in missing):
        said.append("this installation has no access to other systems.")
        said.append("An administrator can turn it on with `sources.enabled` and a Connection.")
        return said if worked or settings.use_delegation_graph else [*said, _flag()]
    if not worked:
        return [*said, "this task was answered without agents, which alone send or change something.", _flag()]
    if rejected:
        return [*said, "a person has rejected it. Say in a message to this task what should be done instead."]
    if list(missing) == [intent.OTHER]:
        return [*said, "no tool of this run does it. A server of tools in `job.tools.mcpServers` could do it."]
    return [*said, "no agent has done it; the answer says what they report. Send this task a message to try again."]


def for_later(moment: datetime, held: rules_context.Standing) -> list[str]:
    """Why what is wanted for later was not done, and what would do it."""
    local, at = moment.astimezone(time_zones.zone(held.zone)), moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    return [
        f"Not done yet: it is wanted for `{local:%Y-%m-%d %H:%M}` (`{held.zone or 'UTC'}`).",
        f'To have it done then, create a task with this text and `spec.schedule.at: "{at}"`; to have it done at once, '
        "say so in a message to this task.",
    ]


def _flag() -> str:
    return (
        'To have it done, create the task with the annotation `jervis.dev/use-delegation-graph: "true"`, or have an '
        "administrator set `job.flags.useDelegationGraph`."
    )


def _tool(effect: str) -> str:
    """The tool of agents with that effect."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", effect).lower()
