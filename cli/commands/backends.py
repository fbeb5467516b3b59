"""`backends`: the GPUs and what they do."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

from rich import console, text
from typer import Option

from cli import options, output, reading, services
from cli.session import Session
from cli.views import backends as view
from cli.views import models
from crds import errors
from text import printable

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
    """GpuBackends: readiness, models in memory and of the roles, and with --load the requests of this moment."""
    raws = session.kube.backends()
    more: dict[str, Any] = {}
    load = None
    try:
        status = asyncio.run(_status(session, router, router_token))
    except errors.JervisError as error:
        if router or with_load:
            raise
        roles: console.RenderableType = text.Text(f"Models by role: not checked. {printable.line(error.message)}")
    else:
        roles = models.draw(status.models)
        more["models"] = json.loads(status.models.model_dump_json(by_alias=True))
        if router or with_load:
            more["router"] = json.loads(status.model_dump_json(by_alias=True))
            load = view.Load(
                {one.name: (one.in_flight, one.num_parallel) for one in status.backends},
                status.queue.by_priority,
                status.queue.oldest_seconds,
            )
    drawn = view.draw([reading.backend(raw) for raw in raws], load)
    session.output.show(output.document(raws, **more), console.Group(drawn, text.Text(""), roles))


async def _status(session: Session, url: str, token: str) -> Any:
    """The router's view, a `router.status.Status`. Raises the errors of `router.client`, and `Unusable` when there is
    no way to it."""
    async with services.router(session, url, token, _SECONDS) as client:
        return await client.status()
