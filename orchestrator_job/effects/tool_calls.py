"""One call of a tool: carried out, recorded for a person, or answered with why it is not. Code decides, from data.

An effect that nothing allows (`allowance`) is recorded: the call gives its `Request`, the agent goes on with what does
not depend on it, and once a person has decided the same call is made again, at its own place in the ledger.

The ledger has two entries for a call that a person decides about, under the same ordinal: the decision at
`<delegation>.approval`, the effect at the delegation itself. So an approved effect happens once, with the arguments
that were approved, however often the run is resumed. An approval is used up by an effect that was done, or that cannot
be done, and by no outage: then the run ends, and the next one does it.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

import crds.errors
from crds import approvals, pendingtask
from orchestrator_job import errors, outcome
from orchestrator_job.effects import (
    allowance,
    copies,
    duplicate_effects,
    effect_digest,
    ledger,
    ledger_entries,
    seen_texts,
)
from orchestrator_job.effects.tools import port
from orchestrator_job.store import retry


class Request(BaseModel):
    """What a person is asked about: exactly what will be done. `shown` is for the person, `targets` what it is aimed
    at, `copies` what of its text was read elsewhere, `why` says why a person is asked. `unknown`: it may have happened
    already, and would be done again. `intent` is that of the effect; empty where it is unknown. `definition` is that of
    a tool of others."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    delegation_id: str
    ordinal: Annotated[int, Field(ge=0)]
    agent: str
    tool: str
    arguments: dict[str, JsonValue]
    shown: str
    why: str
    permitted_as: str = ""
    connection: str = ""
    targets: tuple[str, ...] = ()
    copies: tuple[approvals.Copy, ...] = ()
    unknown: bool = False
    intent: dict[str, JsonValue] = Field(default_factory=dict)
    definition: str = ""

    @property
    def id(self) -> str:
        """Its entry in the ledger, by which a person decides about it."""
        return ledger_entries.about(self.step, self.ordinal)

    @property
    def step(self) -> str:
        """Where the ledger has the decision: with the effect itself once that was begun."""
        return self.delegation_id if self.unknown else approval(self.delegation_id)

    @property
    def same(self) -> str:
        """Equal for requests about the same effect; "" where that is not known, or where it may have happened."""
        return "" if self.unknown else str(self.intent.get(effect_digest.DIGEST) or "")

    def entry(self, key: str) -> dict[str, JsonValue]:
        """What the ledger has of the request that is stored as the artifact `key`."""
        targets: list[JsonValue] = list(self.targets)
        return {"tool": self.tool, "targets": targets, "request": key, "definition": self.definition}

    def recorded(self, details: str = "") -> approvals.Recorded:
        """For the person; `details` is the key of what is shown, where that is long."""
        return approvals.Recorded(
            id=self.id,
            tool=self.permitted_as or self.tool,
            connection=self.connection,
            targets=self.targets,
            agent=self.agent,
            arguments=self.arguments,
            shown=self.shown,
            why=self.why,
            copies=self.copies,
            details_ref=details,
        )


@dataclass(frozen=True, slots=True)
class Desk:
    """What calls of a run are decided by: the ledger, what allows effects, and the clock, in UTC."""

    book: ledger.Ledger
    grants: allowance.Grants
    retries: retry.Retry
    now: Callable[[], datetime]


REDEFINED = "The server describes {tool} otherwise since this was asked: look again at what it does."


def approval(delegation_id: str) -> str:
    """The step of the ledger with the decisions on a delegation's calls."""
    return f"{delegation_id}{ledger_entries.APPROVAL}"


async def needless(request: Request, book: ledger.Ledger) -> bool:
    """Whether the same was done in this round since the request was made: then no person is asked about it, and the
    call is answered with that."""
    if request.unknown or not request.intent.get(effect_digest.DIGEST):
        return False
    others = await book.others(request.delegation_id, request.ordinal, str(request.intent["tool"]))
    found = duplicate_effects.found(request.intent, request.delegation_id, "", others)
    return found is not None and not found.asks


async def call(
    tool: port.Tool,
    given: Any,
    place: port.Place,
    desk: Desk,
    *,
    agent: str,
    known: seen_texts.SeenTexts,
    taken_over: str = "",
) -> port.Result | Request:
    """What it gave, or the request for a person. `taken_over` is the delegation whose task this one has now.
    Raises `port.Misused`, Fenced, and what is operational of a tool that the run cannot do without, or of an effect
    that a person has approved."""
    most = tool.away_seconds if isinstance(tool, port.Dispensable) else math.inf
    try:
        if isinstance(tool, port.Acting) and not await _reads(tool, given, known):
            return await _Act(tool, place, most, desk, agent, known, taken_over).carried_out(given)
        assert isinstance(tool, port.Reading), tool.name
        return await desk.retries.call(f"call {tool.name}", lambda: tool.read(given, place), most=most)
    except port.Misused:
        raise
    except crds.errors.Operational as error:
        if not isinstance(tool, port.Dispensable):
            raise
        if not port.acts(tool):
            return absent(error.message)
        step = approval(place.delegation_id)
        if not isinstance(error, errors.NotBegun) or await desk.book.decided(step, place.ordinal) is not None:
            raise
        return absent(error.message, "done")
    except crds.errors.Permanent as error:
        if isinstance(error, errors.Failure) or outcome.unauthorized(error) is not None:
            raise
        return port.Result(" ".join(filter(None, (error.message, error.remedy))), failed=True)


async def _reads(tool: port.Acting, given: Any, known: seen_texts.SeenTexts) -> bool:
    """Whether the call only reads: it names no host that is not allowed, and takes no copy of what was read to one."""
    if not isinstance(tool, port.Guarded):
        return False
    reach = tool.reach(given)

    def inside(host: str) -> bool:
        return tool.allows(host) or known.internal.has(host)

    if not all(map(inside, reach.targets)):
        return False
    called = copies.targets("", (), reach.url)
    if all(inside(target.host) for target in called):
        return True
    found = await asyncio.to_thread(copies.copies, reach.text, called, known)
    return not any(copy.why for copy in found)


def absent(why: str, what: str = "read") -> port.Result:
    """The answer to a call of a tool that is away, and that the run can do without."""
    return port.Result(f"{why.rstrip('.')}. Report that this was not {what}.", failed=True)


@dataclass(frozen=True, slots=True)
class _Act:
    """One call of a tool with an effect; what it asks is waited for `most` seconds."""

    tool: port.Acting
    place: port.Place
    most: float
    desk: Desk
    agent: str
    known: seen_texts.SeenTexts
    taken_over: str

    async def carried_out(self, given: Any) -> port.Result | Request:
        """Carry it out once, or the request for a person. Raises `port.Misused` for arguments that are refused before a
        person is asked, Fenced, and what the effect raises."""
        tool, place, book = self.tool, self.place, self.desk.book
        step = approval(place.delegation_id)
        decided = await book.decided(step, place.ordinal)
        if decided is not None and decided.verdict is pendingtask.Verdict.REJECTED:
            return rejected(decided)
        if decided is not None and (why := await _redefined(tool, place, decided, book)):
            await book.reopen(step, place.ordinal, why)
            decided = None
        edited = decided_arguments(decided) if decided is not None else None
        first = given
        if edited is not None:
            try:
                given = _usable(tool, edited)
            except port.Misused as error:
                why = f"Asked again, as the edited arguments cannot be used: {error.message}."
                await book.reopen(step, place.ordinal, why)
                decided = edited = None
        # Refused, before a person is asked, is what the settings or a rule do not allow.
        tool.aims(given)
        effect, reach = tool.effect(given, place), tool.reach(given)
        intent = effect.intent()
        async with book.turn(str(intent.get(effect_digest.DIGEST) or place.key)):
            repeated = await _repeated(intent, place, self.taken_over, book)
            if repeated is not None and not repeated.asks:
                # Whatever a person has decided: the same was done since they were asked, or is what they made of it.
                return port.Result(repeated.why)
            allowed: ledger_entries.Allowed | None = None
            if decided is None and not await book.begun(place.delegation_id, place.ordinal):
                # One that was begun was allowed then; whether it took place is found out now.
                ruling = await self._ruling(reach, intent, repeated)
                if not ruling.allowed:
                    return asking(tool, given, place, self.agent, ruling.why, intent=intent, found=ruling.copies)
                allowed = ruling.record
            elif decided is not None:
                if edited is not None and repeated is not None:
                    # What was shown is not what was done before; what the person made of it is.
                    why = f"Asked again, as the edited arguments are those of an earlier effect: {repeated.why}"
                    if not await book.objected(step, place.ordinal, why):
                        await book.reopen(step, place.ordinal, why)
                        return asking(tool, first, place, self.agent, why, intent=tool.effect(first, place).intent())
                edits, lasts = edited is not None, decided.for_task
                allowed = allowance.approved(decided.author, reach, edited=edits, for_task=lasts)
            if definition(tool) and await book.outdated(place.delegation_id, place.ordinal, definition(tool)):
                why = redefined(unknown(tool.name, ledger_entries.CHECK), tool.name)
                return asking(tool, given, place, self.agent, why, unknown=True)
            try:
                receipt = await self.desk.retries.call(
                    f"carry out {tool.name}",
                    lambda: book.settle(place.delegation_id, place.ordinal, effect, allowed),
                    most=self.most,
                )
            except errors.NotBegun:
                await book.withdraw(place.delegation_id, place.ordinal)
                raise
            except errors.MayHaveHappened as error:
                return asking(tool, given, place, self.agent, unknown(tool.name, error.remedy or ""), unknown=True)
        return of_receipt(receipt, edited=edited is not None, given=given)

    async def _ruling(
        self, reach: port.Reach, intent: Mapping[str, Any], repeated: duplicate_effects.Repeated | None
    ) -> allowance.Ruling:
        """Whether permits or approvals of others allow it. What is allowed is announced, so that another branch does
        not use up the same permit."""
        place, book = self.place, self.desk.book
        targets = copies.targets(reach.connection, reach.targets, reach.url)
        # Beside the loop: texts may be long. Nothing else has this `known`, and the turn is kept meanwhile.
        found = await asyncio.to_thread(copies.copies, reach.text, targets, self.known, reach.stored)
        # What was edited in vain is not approved as the model wanted it.
        whys = [await book.objection(approval(place.delegation_id), place.ordinal), repeated.why if repeated else ""]
        async with book.turn("permits"):
            used = await book.used(place.delegation_id, place.ordinal)
            ruling = allowance.rule(self.tool.tier, reach, self.desk.grants, used, found, self.desk.now())
            if any(whys):
                why = " ".join(filter(None, [*whys, ruling.why]))
                return allowance.Ruling(False, why=why, copies=tuple(found))
            if ruling.record is not None:
                await book.announce(place.delegation_id, place.ordinal, intent, ruling.record)
        return ruling


def rejected(decided: pendingtask.Decided) -> port.Result:
    """The answer to a call that a person has rejected."""
    why = f": {decided.comment}" if decided.comment else "."
    return port.Result(f"A person has rejected this{why} Do not try it again; go on without it.", failed=True)


def redefined(why: str, tool: str) -> str:
    """`why`, and that the tool is described otherwise since."""
    said = REDEFINED.format(tool=tool)
    return why if said in why else f"{why} {said}"


def definition(tool: port.Tool) -> str:
    """What a tool of others says of itself, as a digest; "" for one of ours."""
    return tool.definition if isinstance(tool, port.Foreign) else ""


async def _redefined(tool: port.Tool, place: port.Place, decided: pendingtask.Decided, book: ledger.Ledger) -> str:
    """Why an approval counts no more; "" where the tool is what a person was shown, or the call was begun with it."""
    shown = await book.definition(approval(place.delegation_id), place.ordinal)
    if shown in ("", definition(tool)) or await book.begun(place.delegation_id, place.ordinal):
        return ""
    why = REDEFINED.format(tool=tool.name)
    return f"{why} Changes of its arguments have to be made again." if decided.arguments else why


async def _repeated(
    intent: Mapping[str, Any], place: port.Place, taken_over: str, book: ledger.Ledger
) -> duplicate_effects.Repeated | None:
    """What the task has done before that is the same."""
    if not intent.get(effect_digest.DIGEST):
        return None
    others = await book.others(place.delegation_id, place.ordinal, str(intent["tool"]))
    found = duplicate_effects.found(intent, place.delegation_id, taken_over, others)
    if place.round > 1 and (found is None or found.asks):
        found = duplicate_effects.unreported(intent, await book.unreported(place.round)) or found
    return found


def _usable(tool: port.Acting, edited: Mapping[str, Any]) -> Any:
    """The arguments that a person gave. Raises `port.Misused`."""
    given = port.parse(tool, edited)
    tool.aims(given)
    return given


def asking(
    tool: port.Acting,
    given: Any,
    place: port.Place,
    agent: str,
    why: str,
    *,
    unknown: bool = False,
    intent: Mapping[str, Any] | None = None,
    found: Sequence[copies.Copy] = (),
) -> Request:
    """The request for a person about a call with these arguments; `found` are copies in its text. Raises
    `port.Misused`."""
    reach = tool.reach(given)
    return Request(
        delegation_id=place.delegation_id,
        ordinal=place.ordinal,
        agent=agent,
        tool=tool.name,
        arguments=given.model_dump(mode="json", by_alias=True),
        shown=tool.shown(given),
        why=why,
        permitted_as=reach.tool,
        connection=reach.connection,
        targets=reach.targets,
        copies=allowance.recorded(found),
        unknown=unknown,
        intent=dict(intent or {}),
        definition=definition(tool),
    )


def unknown(tool: str, remedy: str) -> str:
    """Why a person is asked about an effect that may have happened."""
    return f"{tool} was started by an earlier run and may have happened; nothing was repeated. {remedy}"


def decided_arguments(decided: pendingtask.Decided) -> Mapping[str, Any] | None:
    """The arguments that a person has put in place of the model's; None without any."""
    found = json.loads(decided.arguments) if decided.arguments else None
    return found if isinstance(found, dict) else None


def of_receipt(receipt: ledger_entries.Receipt, *, edited: bool, given: Any) -> port.Result:
    """What the model is given of a receipt: `text`, and by name `artifacts`, `changedFiles` and `failed`."""
    if receipt.get("skipped"):
        return port.Result(duplicate_effects.LEFT)
    text = str(receipt.get("text") or "Done.")
    if edited:
        changed = json.dumps(given.model_dump(mode="json", by_alias=True), ensure_ascii=False)
        text += f"\nA person has changed the arguments; it was done with these: {changed}"
    known = ("text", "artifacts", "changedFiles", "failed")
    return port.Result(
        text,
        data={name: value for name, value in receipt.items() if name not in known},
        artifacts=tuple(receipt.get("artifacts", ())),
        changed_files=tuple(receipt.get("changedFiles", ())),
        failed=bool(receipt.get("failed")),
    )
