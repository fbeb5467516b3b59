"""A process opens its port before it opens its stores, whose files it may have to migrate for minutes.

A kubelet starts a container again whose port stays closed, and a migration that is cut off begins anew: with a large
file that never ended. So /healthz says from the first moment that the process lives, and everything else is 503 with
the reason and Retry-After until the whole application takes the port over.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from aiohttp import web

from crds import errors
from kb import metrics
from kb.http import problems


def application(reason: Callable[[], errors.Operational], meters: metrics.Metrics) -> web.Application:
    """What answers until then; its requests are counted as the others are."""

    async def live(request: web.Request) -> web.Response:
        return web.json_response({"status": "alive"})

    async def wait(request: web.Request) -> web.Response:
        raise reason()

    made = web.Application(middlewares=[problems.middleware(meters)])
    made.router.add_get("/healthz", live)
    made.router.add_route("*", "/{path:.*}", wait)
    return made


class Port:
    """One application after the other answers on `listening`; no connection is refused between two of them.

    The requests that run when an application has to leave get `seconds`.
    """

    def __init__(self, listening: socket.socket, seconds: float) -> None:
        self._listening = listening
        self._seconds = seconds
        self._runner: web.AppRunner | None = None

    async def serve(self, served: web.Application) -> list[str]:
        """From now on `served` answers; the addresses at which it does."""
        runner = web.AppRunner(served, access_log=None, shutdown_timeout=self._seconds)
        await runner.setup()
        former, self._runner = self._runner, runner
        # A descriptor of its own: the end of one application does not close the port of the next.
        await web.SockSite(runner, self._listening.dup()).start()
        if former is not None:
            await former.cleanup()
        return [str(address) for address in runner.addresses]

    async def close(self) -> None:
        """End the last application and close the port."""
        if self._runner is not None:
            await self._runner.cleanup()
        self._listening.close()
