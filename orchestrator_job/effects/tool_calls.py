"""One call of a tool: carried out, held for a person, or answered with why it is not. Code decides.

The ledger has two entries for a call that a person decides about, under the same ordinal: the decision at
`<delegation>.approval`, the effect at the delegation itself. So an approved effect happens once, with the arguments
that were approved, however often the run is resumed.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

import crds.errors
from contracts.rules import enforce_lines
from crds import pendingtask
from orchestrator_job import errors, outcome
from orchestrator_job.effects import duplicate_effects, effect_digest, ledger, ledger_entries
from orchestrator_job.effects.permits import provenance, seen_texts
from orchestrator_job.effects.tools import port
from orchestrator_job.store import retry


class Request(BaseModel):
    """What a person is asked about: exactly what will be done. `shown` is for the person, `aims` what it is aimed at,
    `why` says why a person is asked. `unknown`: it may have happened already, and would be done again. `intent` is that
    of the effect; empty where it is unknown. `definition` is that of a tool of others."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    delegation_id: str
    ordinal: Annotated[int, Field(ge=0)]
    agent: str
    tool: str
    arguments: dict[str, JsonValue]
    shown: str
    aims: dict[str, str]
    why: str
    unknown: bool = False
    intent: dict[str, JsonValue] = Field(default_factory=dict)
    definition: str = ""

    @property
    def step(self) -> str:
        """Where the ledger has the decision: with the effect itself once that was begun."""
        return self.delegation_id if self.unknown else approval(self.delegation_id)

    def entry(self, key: str) -> dict[str, JsonValue]:
        """What the ledger has of the request that is stored as the artifact `key`."""
        aims: dict[str, JsonValue] = dict(self.aims)
        return {"tool": self.tool, "aims": aims, "request": key, "definition": self.definition}


REDEFINED = "The server describes {tool} otherwise since this was asked: look again at what it does."


def approval(delegation_id: str) -> str:
    """The step of the ledger with the decisions on a delegation's calls."""
    return f"{delegation_id}.approval"


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
    *,
    agent: str,
    known: seen_texts.SeenTexts,
    held: enforce_lines.Provisions,
    book: ledger.Ledger,
    retries: retry.Retry,
    taken_over: str = "",
) -> port.Result | Request:
    """What it gave, or the request for a person. `taken_over` is the delegation whose task this one has now.
    Raises `port.Misused`, Fenced, and what is operational of a tool that the run cannot do without."""
    most = tool.away_seconds if isinstance(tool, port.Dispensable) else math.inf
    try:
        if isinstance(tool, port.Acting):
            return await _act(
                tool,
                given,
                place,
                most,
                agent=agent,
                known=known,
                held=held,
                book=book,
                retries=retries,
                taken_over=taken_over,
            )
        assert isinstance(tool, port.Reading), tool.name
        return await retries.call(f"call {tool.name}", lambda: tool.read(given, place), most=most)
    except port.Misused:
        raise
    except crds.errors.Operational as error:
        if not isinstance(tool, port.Dispensable):
            raise
        if not isinstance(tool, port.Acting):
            return absent(error.message)
        if not isinstance(error, errors.NotBegun):
            raise
        return absent(error.message, "done")
    except crds.errors.Permanent as error:
        if isinstance(error, errors.Failure) or outcome.unauthorized(error) is not None:
            raise
        return port.Result(" ".join(filter(None, (error.message, error.remedy))), failed=True)


def absent(why: str, what: str = "read") -> port.Result:
    """The answer to a call of a tool that is away, and that the run can do without."""
    return port.Result(f"{why.rstrip('.')}. Report that this was not {what}.", failed=True)


async def _act(
    tool: port.Acting,
    given: Any,
    place: port.Place,
    most: float,
    *,
    agent: str,
    known: seen_texts.SeenTexts,
    held: enforce_lines.Provisions,
    book: ledger.Ledger,
    retries: retry.Retry,
    taken_over: str,
) -> port.Result | Request:
    """Carry it out once, or the request for a person; what it asks is waited for `most` seconds. Raises `port.Misused`
    for arguments that are refused before a person is asked, Fenced, and what the effect raises."""
    step = approval(place.delegation_id)
    decided = await book.decided(step, place.ordinal)
    if decided is not None and decided.verdict is pendingtask.Verdict.REJECTED:
        why = f": {decided.comment}" if decided.comment else "."
        return port.Result(f"A person has rejected this{why} Do not try it again; go on without it.", failed=True)
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
    effect = tool.effect(given, place)
    intent, wanted = effect.intent(), tool.wanted(given) if isinstance(tool, port.Orderable) else None
    async with book.turn(str(intent.get(effect_digest.DIGEST) or place.key)):
        repeated = await _repeated(intent, place, taken_over, book)
        if repeated is not None and not repeated.asks:
            # Whatever a person has decided: the same was done since they were asked, or is what they made of it.
            return port.Result(repeated.why)
        if decided is None:
            # Beside the loop: texts may be long. Nothing else has this `known`, and the turn is kept meanwhile.
            ruling = await asyncio.to_thread(provenance.rule, tool, dict(tool.aims(given)), known, held, wanted)
            # What was edited in vain counts as named by a person, who has not approved these arguments.
            reasons = [await book.objection(step, place.ordinal), ruling.why if ruling.asks else ""]
            if repeated is not None and (
                ruling.asks or not await _anew(tool, given, place, wanted, known, repeated, book)
            ):
                reasons.append(repeated.why)
            if ruling.asks or any(reasons):
                return asking(tool, given, place, agent, " ".join(filter(None, reasons)), intent=intent)
        elif edited is not None and repeated is not None:
            # What was shown is not what was done before; what the person made of it is.
            why = f"Asked again, as the edited arguments are those of an earlier effect: {repeated.why}"
            if not await book.objected(step, place.ordinal, why):
                await book.reopen(step, place.ordinal, why)
                return asking(tool, first, place, agent, why, intent=tool.effect(first, place).intent())
        if definition(tool) and await book.outdated(place.delegation_id, place.ordinal, definition(tool)):
            why = redefined(unknown(tool.name, ledger_entries.CHECK), tool.name)
            return asking(tool, given, place, agent, why, unknown=True)
        try:
            receipt = await retries.call(
                f"carry out {tool.name}",
                lambda: book.settle(place.delegation_id, place.ordinal, effect),
                most=most,
            )
        except errors.MayHaveHappened as error:
            return asking(tool, given, place, agent, unknown(tool.name, error.remedy or ""), unknown=True)
    return of_receipt(receipt, edited=edited is not None, given=given)


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
    if place.round > 1 and (found is None or found.last):
        found = duplicate_effects.unreported(intent, await book.unreported(place.round)) or found
    return found


async def _anew(
    tool: port.Acting,
    given: Any,
    place: port.Place,
    wanted: port.Wanted | None,
    known: seen_texts.SeenTexts,
    repeated: duplicate_effects.Repeated,
    book: ledger.Ledger,
) -> bool:
    """Whether the user has ordered it once more, after a round had answered that it was done. An order of a text says
    so: without that it may be about another text for the same aims."""
    if wanted is None or not 0 < repeated.last <= (await book.answered(place.round)).round:
        return False
    aims = dict(tool.aims(given))
    bare = not wanted.texts and not wanted.values

    def ordered() -> bool:
        return all(
            any(bare or duplicate_effects.again(one) for one in provenance.ordering(known.user, deed, aims))
            for deed in wanted.deeds
        )

    return await asyncio.to_thread(ordered)


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
) -> Request:
    """The request for a person about a call with these arguments. Raises `port.Misused`."""
    return Request(
        delegation_id=place.delegation_id,
        ordinal=place.ordinal,
        agent=agent,
        tool=tool.name,
        arguments=given.model_dump(mode="json", by_alias=True),
        shown=tool.shown(given),
        aims=dict(tool.aims(given)),
        why=why,
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
