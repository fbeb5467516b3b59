"""One request for an effect, from its claim in the ledger to its outcome.

    killed before Sent                 nothing happened; the same key does it
    killed after Sent, no answer       the target is asked: it happened, it did not (and is done), or it cannot say
    answered, not settled              as above

What the target cannot say is Unknown, for ever. A process that was frozen between Sent and the call acts when it
wakes: a claim in Sent is therefore taken over only after it has ended, and the target is asked before anything is
done again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime

import structlog

from clients import mongo
from contracts.tokens import runtoken
from crds import errors
from crds.connection import Type
from sources.api import problems
from sources.core import port, rest
from sources.effects import effect_protocol, ledger, targets, tools, wire

log = structlog.get_logger("sources")

QUIET_SECONDS = 60.0
"""Seconds after a call whose answer was lost, before the target's word that nothing happened is taken."""
_UNKNOWN = wire.Problem(
    message="The effect may have happened: the target was called, and nothing says what became of it.",
    remedy="Look at the target. If it did not happen, ask for it with a new key.",
)


class EffectRunner:
    """Performs requests. `opens` has the effects of each type of Connection; `seconds` bound what is done at a target
    without a sign that it goes on, and a claim of `entries` lasts longer than that."""

    def __init__(
        self,
        entries: ledger.Ledger,
        places: targets.Targets,
        opens: Mapping[Type, tools.Opens],
        means: tools.Means,
        *,
        seconds: float,
        wall: Callable[[], datetime],
    ) -> None:
        self._entries, self._targets, self._opens, self._means = entries, places, opens, means
        self._seconds, self._wall = seconds, wall

    async def run(self, run: runtoken.Claims, tool: str, asked: wire.Request) -> wire.Outcome:
        """Do it, once, or find what became of it: Done or Unknown. Raises `crds.errors.Permanent` where nothing
        happened and a user has to act, `crds.errors.Operational` where the same request may succeed later."""
        arguments = tools.parse(tool, asked.arguments)
        wanted = ledger.Wanted(
            namespace=run.namespace,
            task=run.task_uid,
            key=asked.key,
            tool=tool,
            connection=asked.connection,
            owner=run.scope,
            arguments=arguments.model_dump(mode="json", by_alias=True),
        )
        taken = await self._entries.claim(wanted, self._wall())
        if isinstance(taken, wire.Outcome):
            return taken
        claim = taken
        # A claim in Sent stays so until the target says otherwise.
        sent, loop = claim.sent, asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._seconds) as bound:

                async def alive() -> None:
                    nonlocal claim
                    now = loop.time()
                    if (bound.when() or now) - now > self._seconds / 2:
                        return
                    bound.reschedule(now + self._seconds)
                    # Without it the claim ends, and the next write of the ledger says so.
                    with suppress(ledger.Lost, mongo.Unavailable):
                        claim = await self._entries.renew(claim, self._wall())

                target = await self._targets.find(run, asked.connection)
                request = tools.EffectRequest(arguments, target, run.scope, wanted.mark, alive)
                effect = await tools.opened(self._opens, tool, request, self._means)
                try:
                    if sent:
                        asked_for = await effect.ask(claim.before)
                        if asked_for.result is not None:
                            return await self._done(claim, asked_for.result)
                        if not asked_for.absent:
                            return await self._unknown(claim, claim.before)
                        self._settled(claim)
                        sent = False
                    before = await effect.prepare()
                    await self._entries.sent(claim, before, self._wall())
                    sent = True
                    try:
                        result = await effect.send(before)
                    except (port.Rejected, port.Misconfigured, rest.Untouched, problems.Conflict):
                        sent = False
                        raise
                    except (errors.JervisError, LookupError, TypeError, ValueError, AttributeError) as error:
                        return await self._lost(claim, effect, before, error)
                    outcome = await self._done(claim, result)
                    bound.reschedule(None)
                    await effect.settled()
                    return outcome
                finally:
                    await effect.close()
        except (ledger.Lost, mongo.Unavailable):
            raise
        except TimeoutError as error:
            problem = wire.Problem(message=f"{asked.connection} took longer than {self._seconds:.0f} seconds")
            await self._release(claim, problem, sent=sent)
            raise port.Unreachable(problem.message) from error
        except errors.JervisError as error:
            error.message = self._targets.hidden(error.message)
            await self._release(claim, _problem(error), sent=sent)
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            # A target that answers something else than its API says; nothing was changed by what came before.
            problem = wire.Problem(message=f"{asked.connection} answered something that is not understood")
            log.exception("effect not done", tool=tool)
            await self._release(claim, problem, sent=sent)
            raise port.Unreachable(problem.message) from error

    async def _lost(
        self, claim: ledger.Claim, effect: effect_protocol.Effect, before: effect_protocol.Before, error: Exception
    ) -> wire.Outcome:
        """The target was called and gave no answer that says what happened. Raises where it cannot be asked now."""
        log.info("answer of an effect lost", cause=str(error)[:300])
        asked = await effect.ask(before)
        if asked.result is not None:
            return await self._done(claim, asked.result)
        if asked.absent:
            raise port.Unreachable(f"The target did not do it: {str(error)[:300]}")
        return await self._unknown(claim, before)

    async def _done(self, claim: ledger.Claim, result: effect_protocol.Result) -> wire.Outcome:
        return await self._entries.settle(claim, ledger.DONE, self._wall(), result=result)

    def _settled(self, claim: ledger.Claim) -> None:
        """Raises while the target may still be busy with the last call."""
        left = QUIET_SECONDS - (self._wall() - (claim.sent_at or self._wall())).total_seconds()
        if left > 0:
            raise port.Unreachable("The target has not done it yet, and was called just now.", retry_after=left)

    async def _unknown(self, claim: ledger.Claim, before: effect_protocol.Before) -> wire.Outcome:
        known = {key: str(value) for key, value in before.items() if key == "messageId"}
        return await self._entries.settle(claim, ledger.UNKNOWN, self._wall(), result=known, problem=_UNKNOWN)

    async def _release(self, claim: ledger.Claim, problem: wire.Problem, *, sent: bool) -> None:
        with suppress(ledger.Lost, mongo.Unavailable):
            await self._entries.release(claim, problem, sent=sent)


def _problem(error: errors.JervisError) -> wire.Problem:
    if isinstance(error, errors.Permanent):
        return wire.Problem(message=error.message, field=error.field, remedy=error.remedy)
    return wire.Problem(message=error.message)
