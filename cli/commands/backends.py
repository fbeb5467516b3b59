"""`backends`: the GPUs and what they do."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

from typer import Option

from cli import options, output, reading, services
from cli.session import Session
from cli.views import backends as view

_SECONDS = 10.0


@options.connected
def run(
    session: Session,
    router: Annotated[
        str, Option(help="URL of the router; as --load, but not through the apiserver.", envvar="JERVIS_ROUTER_URL")
    ] = "",
    router_token: Annotated[
        str, Option(help="Bearer token for the router, if it requires one.", envvar="JERVIS_ROUTER_TOKEN")
    ] = "",
    with_load: Annotated[
        bool, Option("--load", help="Add the requests in flight and waiting, which the router reports.")
    ] = False,
) -> None:
    """GpuBackends: readiness, models in memory, and with --load the requests of this moment."""
    raws = session.kube.backends()
    more: dict[str, Any] = {}
    load = None
    if router or with_load:
        load, more["router"] = asyncio.run(_status(session, router, router_token))
    drawn = view.draw([reading.backend(raw) for raw in raws], load)
    session.output.show(output.document(raws, **more), drawn)


async def _status(session: Session, url: str, token: str) -> tuple[view.Load, Any]:
    """The router's view, and the same as JSON. Raises the errors of `router.client`."""
    async with services.router(session, url, token, _SECONDS) as client:
        status = await client.status()
    load = view.Load(
        {one.name: (one.in_flight, one.num_parallel) for one in status.backends},
        status.queue.by_priority,
        status.queue.oldest_seconds,
    )
    return load, json.loads(status.model_dump_json(by_alias=True))
