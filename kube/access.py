"""Who we are to the apiserver and how it is reached: credentials, TLS, the session with the fence at the wire."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import aiohttp

from crds import errors
from kube import lease
from kube.resources import TOKEN_REVIEWS

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.connector import Connection


class Unconfigured(errors.Permanent):
    """There is no way to an apiserver."""


def configuration(kubeconfig: str | None, *, home: bool = True) -> Any:
    """Server, CA and credentials: from `kubeconfig`, else from the pod's service account, else, with `home`, from
    ~/.kube/config. Raises `Unconfigured`."""
    # Imported by those who ask, and only its loaders: its models cost a process that uses one of them 80 MiB.
    import kubernetes

    config: Any = kubernetes.config  # the package ships no usable types for its loaders
    loaded = kubernetes.client.Configuration()
    try:
        if kubeconfig:
            config.load_kube_config(config_file=kubeconfig, client_configuration=loaded)
        else:
            try:
                config.load_incluster_config(client_configuration=loaded)
            except config.ConfigException:
                if not home:
                    raise
                config.load_kube_config(client_configuration=loaded)
    except config.ConfigException as error:
        raise Unconfigured(
            f"There is no way to a Kubernetes API: {error}",
            field="KUBECONFIG",
            remedy="Set KUBECONFIG to a kubeconfig, or run in a pod with a service account.",
        ) from error
    return loaded


def tls(loaded: Any) -> ssl.SSLContext | bool:
    """TLS as the configuration says."""
    if not str(loaded.host).startswith("https"):
        return True
    context = ssl.create_default_context(cafile=loaded.ssl_ca_cert)
    if loaded.cert_file:
        context.load_cert_chain(loaded.cert_file, loaded.key_file)
    if not loaded.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def authorization(loaded: Any) -> dict[str, str]:
    """The Authorization header, with the token read anew when the service account's has been rotated."""
    token = loaded.get_api_key_with_prefix("BearerToken")
    return {"Authorization": token} if token else {}


def session(
    loaded: Any,
    headers: Mapping[str, str] | None = None,
    *,
    fence: Callable[[], None] | None = None,
    limit: int = 0,
    middlewares: Sequence[aiohttp.ClientMiddlewareType] = (),
) -> aiohttp.ClientSession:
    """A session with the configuration's TLS. Without `headers` each request brings its own authorization.

    `limit` is the number of connections, 0 for as many as there are requests. With a `fence` a request that changes
    something is not sent when that raises as it is about to go onto the wire.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=limit, ssl=tls(loaded)),
        request_class=aiohttp.ClientRequest if fence is None else fenced(fence),
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        middlewares=middlewares,
    )


def fenced(fence: Callable[[], None]) -> type[aiohttp.ClientRequest]:
    """Requests for an aiohttp session: one that changes something is not sent when `fence` raises `kube.lease.Fenced`
    as it is about to go onto the wire.

    Between the call and the wire lie a connection to be had and turns of the loop: time enough to be frozen in.
    """

    class Request(aiohttp.ClientRequest):
        async def write_bytes(
            self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
        ) -> None:
            if self.method != "GET" and self.url.path != TOKEN_REVIEWS.path(None):
                try:
                    fence()
                except lease.Fenced as error:
                    # As in aiohttp itself: the caller that waits for the answer gets the error that nothing was sent.
                    assert conn.protocol is not None
                    conn.protocol.set_exception(aiohttp.ClientConnectionError(error.message))
                    return
            await super().write_bytes(writer, conn, content_length)

    return Request
