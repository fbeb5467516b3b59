"""A process opens its port before it opens its stores, whose files it may have to migrate for minutes.

A kubelet starts a container again whose port stays closed, and with a large file that would happen for ever. So
/healthz says from the first moment that the process lives, and everything else is 503 with the reason and Retry-After
until the whole application takes the port over.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

from aiohttp import web

from crds import errors
from kb import metrics
from kb.service import workers
from kb.service.http import problems


def application(reason: Callable[[], errors.Operational], meters: metrics.Metrics) -> web.Application:
    """What answers until then; its requests are counted as the others are."""

    async def live(request: web.Request) -> web.Response:
        return web.json_response({"status": "alive"})

    async def wait(request: web.Request) -> web.Response:
        raise reason()

    made = web.Application(middlewares=[_once, problems.middleware(meters)])
    made.router.add_get("/healthz", live)
    made.router.add_route("*", "/{path:.*}", wait)
    return made


@web.middleware
async def _once(request: web.Request, handler: problems.Handler) -> web.StreamResponse:
    # The client's next request has to come on a connection of the application that is there by then.
    response = await handler(request)
    response.force_close()
    return response


class Port:
    """One application after the other answers on `listening`; no connection is refused or lost between two of them.

    The connections and requests that an application has when the next one comes get `seconds`.
    """

    def __init__(self, listening: socket.socket, seconds: float) -> None:
        self._listening = listening
        self._seconds = seconds
        self._server: asyncio.Server | None = None
        self._runner: web.AppRunner | None = None

    async def serve(self, served: web.Application) -> list[str]:
        """From now on `served` answers new connections; the addresses at which it does."""
        runner = web.AppRunner(served, access_log=None, shutdown_timeout=self._seconds)
        await runner.setup()
        former, self._runner = self._runner, runner
        if self._server is None:
            # The one that accepts stays: asyncio drops what it has accepted and not yet handed on when it is closed.
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(self._accepted, sock=self._listening, backlog=workers.BACKLOG)
        if former is not None:
            await self._leave(former)
        return [str(one.getsockname()) for one in self._server.sockets]

    def _accepted(self) -> asyncio.BaseProtocol:
        assert self._runner is not None
        assert self._runner.server is not None
        return self._runner.server()

    async def _leave(self, former: web.AppRunner) -> None:
        """End an application after its last connection: one that was accepted may not have sent its request yet."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                # aiohttp has no event for it.
                while former.server is not None and former.server.connections:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        await former.cleanup()

    async def close(self) -> None:
        """Close the port and end the last application."""
        if self._server is not None:
            self._server.close()
        self._listening.close()
        if self._runner is not None:
            await self._runner.cleanup()
