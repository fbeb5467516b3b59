"""The effects ledger: every external effect, and every approval, is announced, started and settled under one key.

`orchestrator_ledger`: {_id: "<task uid>/<step>/<ordinal>", taskUid, step, ordinal, state: intent | started | done,
intent, result, allowed?, askedBy?, shown?, decidedBy?, objection?, attempt, epoch, updatedAt}. `allowed` is what an
effect was done by (`ledger_entries.Allowed`), `askedBy` the attempt that showed it to a person, `shown` how a tool of
others was defined then, `decidedBy` the request whose decision was used, `objection` why a decision was taken back.

The key consists of the task, the plan step and the ordinal in it, never of arguments that a model wrote: a resumed step
is the same effect, even if the model words it differently. `started` without `done` means that a process died in
between: the effect is then looked up by its key, and repeated only if it is `repeatable`. For other effects a person
decides: Approved does it again, as it was, Rejected skips it; an approval with other arguments is asked for once more.
A decision counts once, for the request that it answers and for the entry that was shown (`about`, STEP/ORDINAL).
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from crds import exit_reasons, pendingtask
from orchestrator_job import errors
from orchestrator_job.effects import ledger_entries
from orchestrator_job.store import fence, mongo

COLLECTION = "orchestrator_ledger"


_ROUND = re.compile(r"r(\d+)\.d[\d.]+$")
"""The step of a delegation."""
_ANY_ROUND = re.compile(r"r(\d+)\.")
"""Any step."""


def _round(entry: Mapping[str, Any]) -> int:
    """The round of a delegation's entry; -1 for any other."""
    found = _ROUND.match(str(entry["step"]))
    return int(found[1]) if found is not None else -1


class Ledger:
    """The ledger of one task, written under the epoch of one process. `decisions` are those of the task memory."""

    def __init__(
        self,
        database: mongo.Database,
        guard: fence.Fence,
        now: Callable[[], datetime],
        decisions: Sequence[pendingtask.Decided] = (),
    ) -> None:
        self._decisions = decisions
        self._database = database
        self._guard = guard
        self._now = now
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def turn(self, of: str) -> asyncio.Lock:
        """Held by one branch of this process at a time: it looks what was done, and does it, before the next looks."""
        return self._turns[of]

    async def settle(
        self, step: str, ordinal: int, effect: ledger_entries.Effect, allowed: ledger_entries.Allowed | None = None
    ) -> ledger_entries.Receipt:
        """Ensure that the effect happens exactly once and return its receipt; {"skipped": True, ...} when a person has
        rejected it. `allowed` is kept with it.

        Raises Fenced when a newer process has the task, MayHaveHappened when it is unknown whether it took place, and
        what `effect.perform` raises; after NotBegun the effect is only announced, as before, and counts for its permit.
        """
        more: dict[str, Any] = {} if allowed is None else {"allowed": dict(allowed)}
        key, entry = await self._open(step, ordinal, effect.intent(), **more)
        if entry["state"] == "done":
            return dict(entry["result"])
        used: dict[str, Any] = {}
        if entry["state"] == "started":
            found = await effect.find(key)
            if found is not None:
                return await self._mark(key, "done", found)
            if not effect.repeatable:
                decided = await self._decision(step, ordinal, entry)
                if decided is None or decided.arguments:
                    if decided is not None:
                        await self._mark(key, "started", None, decidedBy=decided.request_id)
                    raise errors.MayHaveHappened(
                        f"Step {step!r} was started by an earlier run and may have happened; nothing was repeated.",
                        # With other arguments it would be another effect, beside the one that may have happened.
                        remedy="Its arguments cannot be changed any more. Approve it as it is, or reject it."
                        if decided is not None
                        else ledger_entries.CHECK,
                    )
                if decided.verdict is pendingtask.Verdict.REJECTED:
                    return await self._mark(key, "done", {"skipped": True, "decision": decided.wire()})
                # Used up: should this process die in the middle as well, the person is asked once more.
                used["decidedBy"] = decided.request_id
        await self._mark(key, "started", None, **used, **more)
        try:
            receipt = await effect.perform(key)
        except errors.NotBegun:
            await self._mark(key, "intent", None)
            raise
        return await self._mark(key, "done", receipt)

    async def announce(
        self, step: str, ordinal: int, intent: Mapping[str, Any], allowed: ledger_entries.Allowed
    ) -> None:
        """Write down what allows an effect, before it begins: from now on it counts for its permit. Raises Fenced."""
        key, entry = await self._open(step, ordinal, intent, allowed=dict(allowed))
        if entry["state"] == "intent" and entry.get("allowed") != allowed:
            await self._mark(key, "intent", None, allowed=dict(allowed))

    async def withdraw(self, step: str, ordinal: int) -> None:
        """What an outage prevented, and is not tried again now, has used up no permit. Raises Fenced."""
        if not await self.begun(step, ordinal):
            key = f"{self._guard.task_uid}/{ledger_entries.about(step, ordinal)}"
            await self._mark(key, "intent", None, allowed=None)

    async def used(self, step: str, ordinal: int) -> ledger_entries.Used:
        """What has allowed effects of the task that were done, or may have been or will be; without the effect of this
        step and ordinal."""
        wanted = {"taskUid": self._guard.task_uid, "allowed.by": {"$exists": True}}
        fields = ["step", "ordinal", "allowed", "result"]
        entries = await self._database.find(COLLECTION, wanted, sort=[("_id", 1)], fields=fields)
        others = [
            one["allowed"]
            for one in entries
            if (one["step"], one["ordinal"]) != (step, ordinal) and not (one.get("result") or {}).get("failed")
        ]
        permitted = tuple(one for one in others if "permit" in one)
        return ledger_entries.Used(permitted, tuple(one for one in others if one.get("forTask")))

    async def done(self, step: str = "") -> list[tuple[str, ledger_entries.Allowed]]:
        """The effects of the task that were done, oldest first, or those of a delegation: the entry's name, and what
        each was done by."""
        wanted = {"taskUid": self._guard.task_uid, "state": "done", "allowed.by": {"$exists": True}}
        fields = ["step", "ordinal", "allowed", "result"]
        query = {**wanted, "step": step} if step else wanted
        entries = await self._database.find(COLLECTION, query, sort=[("updatedAt", 1), ("_id", 1)], fields=fields)
        return [
            (ledger_entries.about(str(one["step"]), int(one["ordinal"])), one["allowed"])
            for one in entries
            if not one["result"].get("failed") and not one["result"].get("skipped")
        ]

    async def resolved(self, step: str, ordinal: int) -> bool:
        """Whether a person has decided about this effect, which may have happened: `settle` is called again then."""
        key = f"{self._guard.task_uid}/{ledger_entries.about(step, ordinal)}"
        entry = await self._database.find_one(COLLECTION, {"_id": key}) or {}
        return entry.get("state") != "started" or await self._decision(step, ordinal, entry) is not None

    async def show(self, step: str, ordinal: int, definition: str = "") -> None:
        """Record that a person is shown now an effect that may have happened, with a tool of that `definition`; the run
        must end with that. Raises Fenced."""
        key = f"{self._guard.task_uid}/{ledger_entries.about(step, ordinal)}"
        entry = await self._database.find_one(COLLECTION, {"_id": key}) or {"intent": {}}
        # Where the server is away its tool is shown as it was before.
        shown = definition or entry.get("shown") or entry["intent"].get("definition") or ""
        await self._mark(key, "started", None, askedBy=self._guard.attempt, shown=shown)

    async def outdated(self, step: str, ordinal: int, definition: str) -> bool:
        """Whether a person approved that this effect, which may have happened, is done again with a tool that was
        defined otherwise: the decision is used up then, and they are asked once more. Raises Fenced."""
        key = f"{self._guard.task_uid}/{ledger_entries.about(step, ordinal)}"
        entry = await self._database.find_one(COLLECTION, {"_id": key}) or {}
        if entry.get("state") != "started" or entry.get("shown", definition) in ("", definition):
            return False
        decided = await self._decision(step, ordinal, entry)
        if decided is None or decided.verdict is pendingtask.Verdict.REJECTED:
            return False
        await self._mark(key, "started", None, decidedBy=decided.request_id)
        return True

    async def begun(self, step: str, ordinal: int) -> bool:
        """Whether the effect was begun, or done."""
        entry = await self._database.find_one(
            COLLECTION, {"_id": f"{self._guard.task_uid}/{ledger_entries.about(step, ordinal)}"}
        )
        return entry is not None and entry["state"] != "intent"

    async def decide(self, step: str, what: Mapping[str, Any], ordinal: int = 0) -> pendingtask.Decided | None:
        """A person's decision on `step`, or None: the request is then recorded, and the run must end with it.

        `what` is a short description of the request. Raises Fenced when a newer process has the task.
        """
        decided = await self.verdict(step, what, ordinal)
        if decided is None:
            await self.record_shown(step, what, ordinal)
        return decided

    async def record_shown(self, step: str, what: Mapping[str, Any], ordinal: int = 0) -> None:
        """Record that a person is shown this now. Raises Fenced."""
        key = f"{self._guard.task_uid}/{ledger_entries.about(step, ordinal)}"
        await self._mark(key, "started", None, askedBy=self._guard.attempt, intent=dict(what))

    async def verdict(self, step: str, what: Mapping[str, Any], ordinal: int = 0) -> pendingtask.Decided | None:
        """A person's decision on `step`, if there is one since it was last shown. Raises Fenced."""
        key, entry = await self._open(step, ordinal, what)
        if entry["state"] == "done":
            return pendingtask.Decided.model_validate(entry["result"])
        decided = await self._decision(step, ordinal, entry)
        if decided is not None:
            await self._mark(key, "done", decided.wire(), decidedBy=decided.request_id)
        return decided

    async def adopt(self, step: str, what: Mapping[str, Any], ordinal: int, decided: pendingtask.Decided) -> None:
        """Take a decision on the same effect of another agent for this one. Raises Fenced."""
        key, _ = await self._open(step, ordinal, what)
        await self._mark(key, "done", decided.wire())

    async def look(self, step: str, ordinal: int, effect: ledger_entries.Effect) -> bool:
        """Whether it is unknown if an effect took place that an earlier round began. One that did is recorded as done;
        one that did not, or is harmless to repeat, as announced. Nothing is done. Raises Fenced, and what
        `effect.find` raises."""
        key = f"{self._guard.task_uid}/{ledger_entries.about(step, ordinal)}"
        found = await effect.find(key)
        if found is not None:
            await self._mark(key, "done", found)
        elif effect.repeatable:
            await self._mark(key, "intent", None)
        return found is None and not effect.repeatable

    async def effects(self, before_round: int, from_round: int = 0) -> list[Mapping[str, Any]]:
        """The entries of the task's delegations in these rounds that are done, oldest first."""
        return await self._of_rounds({"state": "done", "intent.tool": {"$exists": True}}, from_round, before_round)

    async def unreported(self, before_round: int) -> list[Mapping[str, Any]]:
        """Those of `effects` in rounds that did not come to their end, so that no result says that they happened, and
        no round since has ended with its answer."""
        uid = self._guard.task_uid
        ends = {f"{uid}/r{number}.finalize/0": number for number in range(1, before_round)}
        query = {"_id": {"$in": list(ends)}, "state": "done"}
        ended = await self._database.find(COLLECTION, query, sort=[("_id", 1)], fields=["_id"])
        over = {ends[str(one["_id"])] for one in ended}
        after = await self.answered(before_round)
        return [one for one in await self.effects(before_round) if _round(one) > after and _round(one) not in over]

    async def answered(self, before_round: int) -> int:
        """The latest round before this one that has ended with its answer to the user; 0 without any."""
        uid = self._guard.task_uid
        ends = {f"{uid}/r{number}.finalize/0": number for number in range(1, before_round)}
        query = {
            "_id": {"$in": list(ends)},
            "state": "done",
            "intent.exitReason": exit_reasons.ExitReason.ANSWERED.value,
        }
        found = await self._database.find(COLLECTION, query, sort=[("_id", 1)], fields=["_id"]) if ends else []
        return max((ends[str(one["_id"])] for one in found), default=0)

    async def started(self, before_round: int) -> list[Mapping[str, Any]]:
        """The entries of delegations in earlier rounds of which it is not known whether they took place."""
        return await self._of_rounds({"state": "started", "intent.tool": {"$exists": True}}, 0, before_round)

    async def approved(self, before_round: int) -> list[tuple[str, int]]:
        """Step and ordinal of effects of earlier rounds that a person has approved and that were not begun: a message
        that came with the decision has begun another round. Raises Fenced."""
        entries = await self._database.find(
            COLLECTION,
            {
                "taskUid": self._guard.task_uid,
                "state": {"$in": ["started", "done"]},
                "intent.request": {"$exists": True},
            },
            sort=[("updatedAt", 1), ("_id", 1)],
            fields=["step", "ordinal", "intent"],
        )
        found = []
        for one in entries:
            step, ordinal = str(one["step"]), int(one["ordinal"])
            delegation = step.removesuffix(ledger_entries.APPROVAL)
            if delegation == step or not 0 <= _round({"step": delegation}) < before_round:
                continue
            decided = await self.verdict(step, one["intent"], ordinal)
            approved = decided is not None and decided.verdict is pendingtask.Verdict.APPROVED
            if approved and not await self.begun(delegation, ordinal):
                found.append((delegation, ordinal))
        return found

    async def others(self, step: str, ordinal: int, tool: str) -> list[Mapping[str, Any]]:
        """The entries of the task's delegations about effects of this tool that were begun, oldest first, without the
        one of this step and ordinal."""
        found = await self._of_rounds({"state": {"$in": ["started", "done"]}, "intent.tool": tool})
        return [one for one in found if (one["step"], one["ordinal"]) != (step, ordinal)]

    async def rejects(self, round_number: int) -> bool:
        """Whether a person has rejected something of this round: its answer or an effect."""
        entries = await self._database.find(
            COLLECTION,
            {"taskUid": self._guard.task_uid, "state": "done", "result.verdict": pendingtask.Verdict.REJECTED.value},
            sort=[("_id", 1)],
            fields=["step"],
        )
        return any(str(one["step"]).startswith(f"r{round_number}.") for one in entries)

    async def _of_rounds(
        self, wanted: Mapping[str, Any], from_round: int = 0, before_round: float = math.inf
    ) -> list[Mapping[str, Any]]:
        """Entries of delegations, oldest first; those about decisions are none."""
        entries = await self._database.find(
            COLLECTION,
            {"taskUid": self._guard.task_uid, **wanted},
            sort=[("updatedAt", 1), ("_id", 1)],
            fields=["step", "ordinal", "state", "intent", "result"],
        )
        return [one for one in entries if from_round <= _round(one) < before_round]

    async def reopen(self, step: str, ordinal: int, why: str) -> None:
        """Take back a decision that cannot be carried out: a person is asked once more, and `why` is kept for that.
        Raises Fenced."""
        await self._mark(
            f"{self._guard.task_uid}/{ledger_entries.about(step, ordinal)}", "started", None, objection=why
        )

    async def definition(self, step: str, ordinal: int) -> str:
        """How the tool was defined when a person was asked; "" where that is not known, or it is one of ours."""
        entry = await self._database.find_one(
            COLLECTION, {"_id": f"{self._guard.task_uid}/{ledger_entries.about(step, ordinal)}"}
        )
        return "" if entry is None else str(entry["intent"].get("definition") or "")

    async def objection(self, step: str, ordinal: int) -> str:
        """Why the last decision was taken back; "" if it was not, or if there is another one since."""
        entry = await self._database.find_one(
            COLLECTION, {"_id": f"{self._guard.task_uid}/{ledger_entries.about(step, ordinal)}"}
        )
        return "" if entry is None or entry["state"] == "done" else str(entry.get("objection") or "")

    async def objected(self, step: str, ordinal: int, why: str) -> bool:
        """Whether a decision was taken back for this, so that the one since was made with it in view."""
        entry = await self._database.find_one(
            COLLECTION, {"_id": f"{self._guard.task_uid}/{ledger_entries.about(step, ordinal)}"}
        )
        return entry is not None and entry.get("objection") == why

    async def reached(self) -> int:
        """The latest round that the task's entries are of; 0: there are none."""
        entries = await self._database.find(
            # By the key, which has an index: each first run of a task asks.
            COLLECTION,
            {"_id": {"$gt": f"{self._guard.task_uid}/", "$lt": f"{self._guard.task_uid}0"}},
            sort=[("_id", 1)],
            fields=["step"],
        )
        found = (_ANY_ROUND.match(str(one["step"])) for one in entries)
        return max((int(match[1]) for match in found if match is not None), default=0)

    async def decided(self, step: str, ordinal: int) -> pendingtask.Decided | None:
        """The decision that `decide` has found earlier; None while there is none."""
        entry = await self._database.find_one(COLLECTION, {"_id": f"{self._guard.task_uid}/{step}/{ordinal}"})
        if entry is None or entry["state"] != "done":
            return None
        return pendingtask.Decided.model_validate(entry["result"])

    async def _decision(self, step: str, ordinal: int, entry: Mapping[str, Any]) -> pendingtask.Decided | None:
        """The latest decision on this entry's latest request."""
        asked, used = entry.get("askedBy"), entry.get("decidedBy")
        fitting = [one for one in self._decisions if one.attempt == asked and one.request_id != used]
        named = [one for one in fitting if one.about == ledger_entries.about(step, ordinal)]
        if named or not any(not one.about for one in fitting):
            return named[-1] if named else None
        # Of an operator that does not pass on what was asked about: the attempt must have asked about nothing else.
        others = await self._database.find(
            COLLECTION, {"taskUid": self._guard.task_uid, "askedBy": asked}, sort=[("_id", 1)], fields=["_id"]
        )
        return [one for one in fitting if not one.about][-1] if len(others) == 1 else None

    async def _open(
        self, step: str, ordinal: int, intent: Mapping[str, Any], **more: Any
    ) -> tuple[str, Mapping[str, Any]]:
        """Key and entry of the step, announced now unless it was before."""
        key = f"{self._guard.task_uid}/{step}/{ordinal}"
        announced = {
            "_id": key,
            "taskUid": self._guard.task_uid,
            "step": step,
            "ordinal": ordinal,
            "state": "intent",
            "intent": dict(intent),
            **more,
            **self._stamp(),
        }
        await self._guard.keep(
            lambda: self._database.insert(COLLECTION, announced),
            lambda: self._database.delete(COLLECTION, {"_id": key, "epoch": self._guard.epoch}),
        )
        entry = await self._database.find_one(COLLECTION, {"_id": key})
        # Gone between the two requests: the task is being removed, and `_mark` refuses what follows.
        return key, entry if entry is not None else {"state": "intent"}

    async def _mark(
        self, key: str, reached: str, receipt: ledger_entries.Receipt | None, **more: Any
    ) -> ledger_entries.Receipt:
        written = await self._database.update(
            COLLECTION,
            {"_id": key, "epoch": {"$lte": self._guard.epoch}},
            {"$set": {"state": reached, "result": receipt, **more, **self._stamp()}},
        )
        if written is None:
            raise errors.Fenced(f"A newer run has written {key} to the ledger; this one stops.")
        return receipt or {}

    def _stamp(self) -> dict[str, Any]:
        return {"attempt": self._guard.attempt, "epoch": self._guard.epoch, "updatedAt": self._now()}
