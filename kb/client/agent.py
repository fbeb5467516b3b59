"""The client's questions to the decision agent.

`kb.client.Client` gives it as `client.agent`. Calls raise `kb.client.Unavailable` or `kb.client.Rejected`, also while
events are read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pydantic

from clients import kb_transport
from crds import priority, scope
from kb import api, routes


class Agent:
    """Answers in words, event by event."""

    def __init__(self, way: kb_transport.Transport) -> None:
        self._way = way

    @asynccontextmanager
    async def ask(
        self, request: api.AgenticSearch, *, urgency: priority.Priority = priority.Priority.P1
    ) -> AsyncIterator[AsyncIterator[api.AgentEvent]]:
        """The events of an answer; to leave the `async with` ends the question, or after `resumeSeconds`."""
        async with self._way.stream(routes.AGENT_ASK, body=request, urgency=urgency) as lines:
            yield _events(lines)

    @asynccontextmanager
    async def resume(
        self, viewer: scope.Scope, stream: str, *, after: int = 0
    ) -> AsyncIterator[AsyncIterator[api.AgentEvent]]:
        """The events of a stream after that one. `Rejected` with code `not_found` where there is no such stream."""
        params: dict[str, str | list[str]] = {**viewer.model_dump(by_alias=True), "after": str(after)}
        async with self._way.stream(
            routes.AGENT_RESUME, at=(stream,), params=params, urgency=priority.Priority.P1
        ) as lines:
            yield _events(lines)

    async def stop(self, viewer: scope.Scope, stream: str) -> None:
        """End a question that gave `resumeSeconds`. `Rejected` with code `not_found` where there is no such stream."""
        params = viewer.model_dump(by_alias=True)
        await self._way.raw(routes.AGENT_STOP, at=(stream,), params=params)


async def _events(lines: AsyncIterator[str]) -> AsyncIterator[api.AgentEvent]:
    async for line in lines:
        try:
            yield api.AgentEvent.model_validate_json(line)
        except pydantic.ValidationError as error:
            raise kb_transport.Rejected(
                f"the knowledge base sent a line that is no event: {error}",
                remedy="Check that the URL is that of a knowledge base of this version.",
            ) from error
