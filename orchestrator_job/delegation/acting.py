"""One call of a tool: carried out, held for a person, or answered with why it is not. Code decides.

The ledger has two entries for a call that a person decides about, under the same ordinal: the decision at
`<delegation>.approval`, the effect at the delegation itself. So an approved effect happens once, with the arguments
that were approved, however often the run is resumed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

import crds.errors
from crds import approvals, pendingtask, provisions
from orchestrator_job import errors, ledger, outcome, patience
from orchestrator_job.delegation import provenance, repeats
from orchestrator_job.delegation.tools import port


class Request(BaseModel):
    """What a person is asked about: exactly what will be done. `shown` is for the person, `aims` what it is aimed at,
    `why` says why a person is asked."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    delegation_id: str
    ordinal: Annotated[int, Field(ge=0)]
    agent: str
    tool: str
    arguments: dict[str, JsonValue]
    shown: str
    aims: dict[str, str]
    why: str

    @property
    def step(self) -> str:
        """Where the ledger has the decision."""
        return approval(self.delegation_id)


def approval(delegation_id: str) -> str:
    """The step of the ledger with the decisions on a delegation's calls."""
    return f"{delegation_id}.approval"


async def call(
    tool: port.Tool,
    given: Any,
    place: port.Place,
    *,
    agent: str,
    known: provenance.Known,
    held: provisions.Provisions,
    book: ledger.Ledger,
    insistence: patience.Patience,
    taken_over: str = "",
) -> port.Result | Request:
    """What it gave, or the request for a person. `taken_over` is the delegation whose task this one has now.
    Raises `port.Misused`, Fenced, MayHaveHappened, and what is operational of a tool that the run cannot do without."""
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
                insistence=insistence,
                taken_over=taken_over,
            )
        assert isinstance(tool, port.Reading), tool.name
        return await insistence.insist(f"call {tool.name}", lambda: tool.read(given, place), most=most)
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
    known: provenance.Known,
    held: provisions.Provisions,
    book: ledger.Ledger,
    insistence: patience.Patience,
    taken_over: str,
) -> port.Result | Request:
    """Carry it out once, or the request for a person; what it asks is waited for `most` seconds. Raises `port.Misused`
    for arguments that are refused before a person is asked, Fenced, MayHaveHappened, and what the effect raises."""
    decided = await book.decided(approval(place.delegation_id), place.ordinal)
    aims: dict[str, str] = {}
    ruling = provenance.Ruling(False)
    if decided is None:
        aims = dict(tool.aims(given))
        ruling = provenance.rule(tool, aims, known, held)
    elif decided.verdict is pendingtask.Verdict.REJECTED:
        why = f": {decided.comment}" if decided.comment else "."
        return port.Result(f"A person has rejected this{why} Do not try it again; go on without it.", failed=True)
    elif edited := decided_arguments(decided):
        try:
            given = port.parse(tool, edited)
            tool.aims(given)
        except port.Misused as error:
            return port.Result(f"It was approved with other arguments, which cannot be used: {error}", failed=True)
    effect = tool.effect(given, place)
    intent = effect.intent()
    async with book.turn(str(intent.get(repeats.DIGEST) or place.key)):
        if decided is None:
            reasons = [ruling.why] if ruling.asks else []
            if intent.get(repeats.DIGEST):
                others = await book.others(place.delegation_id, place.ordinal, str(intent["tool"]))
                repeated = repeats.found(intent, place.delegation_id, taken_over, others)
                if repeated is not None and not repeated.asks:
                    return port.Result(repeated.why)
                reasons += [repeated.why] if repeated is not None else []
            if reasons:
                return Request(
                    delegation_id=place.delegation_id,
                    ordinal=place.ordinal,
                    agent=agent,
                    tool=tool.name,
                    arguments=given.model_dump(mode="json", by_alias=True),
                    shown=tool.shown(given),
                    aims=aims,
                    why=" ".join(reasons),
                )
        try:
            receipt = await insistence.insist(
                f"carry out {tool.name}", lambda: book.settle(place.delegation_id, place.ordinal, effect), most=most
            )
        except errors.MayHaveHappened as error:
            raise _unknown(tool, given, agent, error) from error
    return of_receipt(receipt, edited=decided is not None and bool(decided_arguments(decided)), given=given)


def _unknown(tool: port.Acting, given: Any, agent: str, error: errors.MayHaveHappened) -> errors.MayHaveHappened:
    """The same for a person, who sees the action as in a request of approval."""
    why = f"{tool.name} was started by an earlier run and may have happened; nothing was repeated. {error.remedy}"
    shown = tool.shown(given)
    action = approvals.Wanted(
        tool=tool.name,
        connection=tool.aims(given).get("connection", ""),
        agent=agent,
        arguments=given.model_dump(mode="json", by_alias=True),
        shown=shown,
        why=why,
    )
    return errors.MayHaveHappened(f"{why}\n{shown}", remedy=error.remedy, action=action)


def decided_arguments(decided: pendingtask.Decided) -> Mapping[str, Any] | None:
    """The arguments that a person has put in place of the model's; None without any."""
    found = json.loads(decided.arguments) if decided.arguments else None
    return found if isinstance(found, dict) else None


def of_receipt(receipt: ledger.Receipt, *, edited: bool, given: Any) -> port.Result:
    """What the model is given of a receipt: `text`, and by name `artifacts`, `changedFiles` and `failed`."""
    if receipt.get("skipped"):
        return port.Result("It may have been done already, and a person decided to leave it at that.")
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
