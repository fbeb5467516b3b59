"""Effects that earlier rounds have begun and of which no run has received the end, or that a person has approved.

A message of the user begins another round, also while an effect is under way or may have happened. Its agents have
other steps, so none of them would come to that effect again. Therefore such effects are settled before a round does
anything else: one that is known to have happened is recorded as done, and the agents read that it was; one that did
not happen is left to them; about any other a person decides, who sees it as in any request of approval. What a person
approved, while the user wrote the message that begins the round, is done as it was approved.

The call is read from the journal, where it stands as the model wrote it, and from the ledger, which has the arguments
of an approval.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from crds import scope
from orchestrator_job import errors
from orchestrator_job.agents import registry
from orchestrator_job.effects import allowance, journal, ledger, ledger_entries, seen_texts, tool_calls
from orchestrator_job.effects.tools import port, toolbox
from orchestrator_job.model import rules_context
from orchestrator_job.store import delegation_progress, retry
from text import language


def _gone(why: str) -> str:
    """What a person can do about an effect that cannot be repeated."""
    why = why.rstrip(".")
    return f"It cannot be done again: {why}. Check whether it took place, and reject it to leave it at that."


class Effect:
    """An effect that an earlier round began, as a `ledger_entries.Effect`; `same` is it with what was called then.
    Without that it cannot be looked up. `why` says why it is not done again whatever a person decides."""

    def __init__(self, intent: Mapping[str, Any], same: ledger_entries.Effect | None, why: str = "") -> None:
        self._intent, self._same, self._why = intent, same, why

    @property
    def repeatable(self) -> bool:
        """As the effect itself is."""
        return self._same is not None and self._same.repeatable

    def intent(self) -> Mapping[str, Any]:
        """As it was announced."""
        return self._intent

    async def find(self, key: str) -> ledger_entries.Receipt | None:
        """Raises what the effect raises."""
        return await self._same.find(key) if self._same is not None else None

    async def perform(self, key: str) -> ledger_entries.Receipt:
        """Raises MayHaveHappened where it is not done a second time: whether it was the first time is still unknown."""
        if self._same is None or self._why:
            raise errors.MayHaveHappened(f"{key} is not done again.", remedy=_gone(self._why))
        try:
            return await self._same.perform(key)
        except errors.NotBegun as error:
            raise errors.MayHaveHappened(
                f"{key} is not done again.", remedy=f"{error.message} {ledger_entries.CHECK}"
            ) from error


@dataclass(frozen=True, slots=True)
class Begun:
    """An entry of the ledger: the effect, and what a person is shown of it."""

    effect: Effect
    request: tool_calls.Request


class Unsettled:
    """Settles what earlier rounds have begun. `opener` builds the tools of a run under the rules of its round."""

    def __init__(
        self,
        book: ledger.Ledger,
        records: journal.Journal,
        retries: retry.Retry,
        viewer: scope.Scope,
        now: Callable[[], datetime],
        opener: Callable[[rules_context.Standing], Awaitable[toolbox.Toolbox]],
    ) -> None:
        self._book = book
        self._records = records
        self._retries = retries
        self._viewer = viewer
        self._now = now
        self._opener = opener

    async def settle(self, round_number: int, held: rules_context.Standing) -> list[tool_calls.Request]:
        """The request for a person about the effects that are unknown; nothing once all of rounds before this one are
        settled. Nothing is done again before all are decided; then what was approved, and not begun, is done. Raises
        Fenced, and what the tools' clients raise when their services stay away."""
        entries = await self._book.started(round_number)
        approved = await self._book.approved(round_number)
        if not entries and not approved:
            return []
        tools = (await self._opener(held)).tools
        again, asked = list[Begun](), list[tool_calls.Request]()
        for entry in entries:
            begun = await self._begun(entry, tools, held)
            if await self._unknown(begun):
                one = begun.request
                if one.definition and await self._book.outdated(one.step, one.ordinal, one.definition):
                    one = one.model_copy(update={"why": tool_calls.redefined(one.why, one.tool)})
                if await self._book.resolved(one.step, one.ordinal):
                    again.append(begun)
                else:
                    asked.append(one)
        if not asked:
            asked = [request for begun in again if (request := await self._decided(begun)) is not None]
        if not asked:
            done = [await self._approved(step, ordinal, tools, held) for step, ordinal in approved]
            asked = [request for request in done if request is not None]
        for one in asked:
            if one.unknown:
                await self._book.show(one.step, one.ordinal, one.definition)
            else:
                await self._book.record_shown(one.step, one.entry(""), one.ordinal)
        return asked

    async def _approved(
        self, step: str, ordinal: int, tools: Mapping[str, port.Tool], held: rules_context.Standing
    ) -> tool_calls.Request | None:
        """Does what a person approved; the request where they have to decide once more. Raises NotBegun where the tool
        is away."""
        record = await self._records.open(step)
        called = await record.call(ordinal)
        if called is None:
            return None
        name = str(called["name"])
        if not registry.permitted([name], held.provisions):
            return None
        if name not in tools:
            raise errors.NotBegun(f"There is no tool {name[:100]!r} now, and a person has approved a call of it.")
        place = port.Place(
            viewer=self._viewer,
            delegation_id=step,
            ordinal=ordinal,
            round=delegation_progress.round_of(step),
            language=language.DEFAULT,
        )
        desk = tool_calls.Desk(self._book, allowance.Grants(), self._retries, self._now)
        agent, known = await record.agent(), seen_texts.SeenTexts()
        try:
            given = port.parse(tools[name], called["arguments"])
            done = await tool_calls.call(tools[name], given, place, desk, agent=agent, known=known)
        except port.Misused:
            # It cannot be done as it was approved; the agents of this round read that it was not done.
            return None
        return done if isinstance(done, tool_calls.Request) else None

    async def _unknown(self, begun: Begun) -> bool:
        one = begun.request
        return await self._retries.call(
            f"look up {one.tool}", lambda: self._book.look(one.step, one.ordinal, begun.effect)
        )

    async def _decided(self, begun: Begun) -> tool_calls.Request | None:
        """Does as a person has decided; the request where that was not possible, and one is asked once more."""
        one = begun.request
        try:
            await self._retries.call(
                f"carry out {one.tool}", lambda: self._book.settle(one.step, one.ordinal, begun.effect)
            )
        except errors.MayHaveHappened as error:
            return one.model_copy(update={"why": tool_calls.unknown(one.tool, error.remedy or "")})
        return None

    async def _begun(
        self, entry: Mapping[str, Any], tools: Mapping[str, port.Tool], held: rules_context.Standing
    ) -> Begun:
        step, ordinal, intent = str(entry["step"]), int(entry["ordinal"]), dict(entry["intent"])
        place = port.Place(
            viewer=self._viewer,
            delegation_id=step,
            ordinal=ordinal,
            round=delegation_progress.round_of(step),
            language=language.DEFAULT,
        )
        record = await self._records.open(step)
        called = await record.call(ordinal)
        agent, name = await record.agent(), str(intent["tool"])
        try:
            if called is None:
                raise port.Misused("its arguments are not kept any more")
            name = str(called["name"])
            tool = tools.get(name)
            if not isinstance(tool, port.Acting):
                raise port.Misused(f"there is no tool {name} in this run")
            approved = await self._book.decided(tool_calls.approval(step), ordinal)
            edited = tool_calls.decided_arguments(approved) if approved is not None else None
            given = port.parse(tool, called["arguments"] if edited is None else edited)
            permitted = bool(registry.permitted([name], held.provisions))
            barred = "" if permitted else f"a rule forbids {name}"
            why = tool_calls.unknown(name, ledger_entries.CHECK if permitted else _gone(barred))
            if intent.get("definition", "") not in ("", tool_calls.definition(tool)):
                why = tool_calls.redefined(why, name)
            request = tool_calls.asking(tool, given, place, agent, why, unknown=True)
            return Begun(Effect(intent, tool.effect(given, place), barred), request)
        except port.Misused as error:
            aims = {key: str(value) for key, value in (intent.get("aims") or {}).items()}
            request = tool_calls.Request(
                delegation_id=step,
                ordinal=ordinal,
                agent=agent,
                tool=name,
                arguments=dict(aims),
                shown="\n".join([f"{intent['tool']} of round {place.round}", *(f"{a}: {b}" for a, b in aims.items())]),
                connection=str(intent.get("connection", "")),
                targets=tuple(aims.values()),
                why=tool_calls.unknown(name, _gone(error.message)),
                unknown=True,
            )
            return Begun(Effect(intent, None, error.message), request)
