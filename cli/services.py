"""The services of a release that a command calls itself, and the client of each.

Without a URL a service is reached through the apiserver's proxy with the caller's own rights, as the operator is. The
apiserver takes the header Authorization for itself: a service that asks for a token of its own needs its URL. URL and
token are flags and variables under the same names in every command.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

from typer import Option

from cli import archive, errors
from cli.session import Session
from crds import addresses

if TYPE_CHECKING:
    import httpx

    from kb import client as kb_client
    from router import client as router_client

_WRITING = "app.kubernetes.io/part-of=jervis,app.kubernetes.io/component=kb-write"

_ROUTER = "app.kubernetes.io/part-of=jervis,app.kubernetes.io/component=router"
_SOURCES = "app.kubernetes.io/part-of=jervis,app.kubernetes.io/component=sources"
BEHIND = "http://behind-the-apiserver"
"""The URL of a service that is reached through the apiserver's proxy."""
_CONNECT = 10.0
_NOT_CALLED = b" is not called "
"""In the refusal of a name by the router and the knowledge base (`contracts.browsers`)."""
_OF_CONNECTION = frozenset(
    {
        "host",
        "connection",
        "accept-encoding",
        "content-encoding",
        "content-length",
        "transfer-encoding",
        "authorization",
    }
)
"""Headers between two neighbours; what the proxy sends has its own."""

KbUrl = Annotated[
    str,
    Option(
        "--kb",
        envvar="JERVIS_KB_URL",
        help="URL of the knowledge base. [default: through the apiserver]",
    ),
]
KbToken = Annotated[
    str, Option("--token", envvar="JERVIS_KB_TOKEN", help="Bearer token for the knowledge base, if it requires one.")
]


@asynccontextmanager
async def http(url: str, seconds: float) -> AsyncIterator[httpx.AsyncClient]:
    """For calls to the service at `url`, which may wait for long; `seconds` bounds what gives no time of its own."""
    # Imported late: --help and small submissions need no HTTP client.
    import httpx

    from router import client

    try:
        transport = client.few(url)
    except (httpx.InvalidURL, ValueError):
        transport = client.few()  # the call names the fault
    async with httpx.AsyncClient(transport=transport, timeout=seconds) as opened:
        yield opened


@asynccontextmanager
async def knowledge(
    url: str,
    token: str,
    seconds: float,
    *,
    session: Session | None = None,
    attempts: int = 3,
    principals: Sequence[str] = (),
) -> AsyncIterator[kb_client.Client]:
    """The knowledge base at `url`, or for "" that of the session's release, through the apiserver; `token` "" is for
    one that asks for none. `seconds` bounds each call but those that run a model: they wait as long as the router
    lets their priority wait."""
    import stamina

    from kb import client

    # A command says itself what became of it; the retries' own log would go to standard output.
    stamina.instrumentation.set_on_retry_hooks(())
    opening = _behind(session, _WRITING, "--kb", token, seconds) if session and not url else http(url, seconds)
    async with opening as opened:
        yield client.Client(url or BEHIND, opened, token, patient=True, attempts=attempts, principals=principals)


@asynccontextmanager
async def router(session: Session, url: str, token: str, seconds: float | None) -> AsyncIterator[router_client.Client]:
    """The router at `url`, or the release's through the apiserver for "". `seconds` bounds each wait; None: as long as
    the router lets a request of its priority wait."""
    from router import client

    most = _CONNECT if seconds is None else seconds
    opening = http(url, most) if url else _behind(session, _ROUTER, "--router", token, most)
    async with opening as opened:
        yield client.Client(url or BEHIND, opened, silence=seconds, token=lambda: token)


@asynccontextmanager
async def sources(
    session: Session, url: str, token: str, seconds: float
) -> AsyncIterator[tuple[str, httpx.AsyncClient]]:
    """(URL, client) of the sources process at `url`. It asks for a token, which the apiserver does not pass on: without
    a URL this raises `Unusable` with the way to it."""
    opening = http(url, seconds) if url else _behind(session, _SOURCES, "--sources", token, seconds)
    async with opening as opened:
        yield url or BEHIND, opened


@asynccontextmanager
async def _behind(
    session: Session, labels: str, flag: str, token: str, seconds: float
) -> AsyncIterator[httpx.AsyncClient]:
    """For calls to `BEHIND`: the Service with these labels of the release that processes the namespace.

    Raises `Unusable` naming `flag`.
    """
    import httpx

    namespace, name, port = _found(session, labels, flag)
    way = (
        f"Reach the service with: kubectl port-forward -n {namespace} svc/{name} {port}, and give"
        f" {flag} http://127.0.0.1:{port}"
    )
    if token:
        raise errors.Unusable("The apiserver passes no token on to a service.", field=flag, remedy=way)
    prefix = "/api/v1" + addresses.path("namespaces", namespace, "services", f"http:{name}:{port}", "proxy")

    class Proxy(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            limits = request.extensions["timeout"]
            sent = {name: value for name, value in request.headers.items() if name not in _OF_CONNECTION}
            call = functools.partial(
                session.kube.through,
                request.method,
                prefix + request.url.raw_path.decode(),
                body=await request.aread(),
                seconds=(limits["connect"], limits["read"]),
            )
            try:
                status, headers, body = await asyncio.to_thread(call, headers=sent)
                if status == 403 and _NOT_CALLED in body:
                    # The apiserver passes its own public name on, which a service takes for one that a page made up.
                    # Not at once: what stands before some apiservers chooses them by that name.
                    own = {**sent, "Host": f"{name}.{namespace}.svc"}
                    status, headers, body = await asyncio.to_thread(call, headers=own)
            except errors.Forbidden as error:
                raise errors.Unusable(error.message, field=flag, remedy=way) from error
            kept = {name: value for name, value in headers.items() if name.lower() not in _OF_CONNECTION}
            return httpx.Response(status, headers=kept, content=body)

    async with httpx.AsyncClient(transport=Proxy(), timeout=seconds) as opened:
        yield opened


def _found(session: Session, labels: str, flag: str) -> tuple[str, str, int]:
    """Namespace, name and port of a Service of the release."""
    try:
        where = archive.release(session.kube)
        services = session.kube.services(where, labels)
        why = f"Namespace {where!r} has no Service with the labels {labels}."
    except errors.Forbidden as error:
        where, services, why = "", [], error.message
    if not services:
        raise errors.Unusable(why, field=flag, remedy=f"Give the URL of the service with {flag}.")
    return where, str(services[0]["metadata"]["name"]), int(services[0]["spec"]["ports"][0]["port"])
