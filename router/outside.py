"""What depends on files or on the apiserver, built from the settings: the gate, backends' tokens, the Lease, the watch.

`kube` and what it stands on cost memory and time, so it is imported only by a router that is configured to use it.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crds import errors
from router import auth
from router.backends import book, secrets
from router.proxy.message import ANYBODY, Identity
from router.settings import Settings

if TYPE_CHECKING:
    import aiohttp

    import kube
    from router import ha, usagestore
    from router.backends import objects

_REVIEW_SECONDS = 3.5
"""A client waits for it."""
_CONNECTIONS = 16
"""To the apiserver: many unknown tokens at once must not become as many handshakes there."""

# Paths that show nothing of anybody: liveness, the page without its data, what a client asks first.
FREE = ("/", "/healthz", "/readyz", "/activez", "/metrics", "/router", "/router/", "/router/openapi.json")


class Outside:
    """Builds on demand; the connection to the apiserver is made once."""

    def __init__(self, settings: Settings, *, now: Callable[[], float], wall: Callable[[], datetime]) -> None:
        self._settings = settings
        self._now = now
        self._wall = wall
        self._loaded: Any = None
        self._http: aiohttp.ClientSession | None = None
        self._plain: aiohttp.ClientSession | None = None
        self._api: kube.Kube | None = None
        self._candidate: ha.Candidate | None = None
        self.follow_runs: Callable[[], Coroutine[Any, Any, None]] | None = None
        """Has to run beside a gate that takes run tokens."""

    def gate(self) -> auth.Gate:
        """Raises auth.Invalid for a tokens' file that cannot be used, runtoken.Unusable for such keys."""
        settings, tokens, reviewed, runs = self._settings, None, None, None
        if settings.run_token_keys is not None:
            from router.runs import Runs

            known = Runs(settings.run_token_keys, settings.live_runs_url, monotonic=self._now, wall=self._wall)
            runs, self.follow_runs = known.find, known.follow
        if settings.tokens_file is not None:
            tokens = auth.Tokens(Path(settings.tokens_file))
            tokens.load()
        if settings.token_review:
            self._apiserver()  # a way that does not exist shall be known at the start
            reviewed = auth.reviewed(
                self._review,
                auth.accounts(
                    settings.allowed_accounts,
                    settings.admin_accounts,
                    settings.account_ceilings,
                    namespace=settings.namespace,
                    viewers=settings.history_account,
                ),
                now=self._now,
            )
        anonymous = Identity(ceiling=settings.anonymous_ceiling) if settings.anonymous_ceiling else ANYBODY
        return auth.Gate(tokens, reviewed, runs=runs, free=FREE, required=settings.token_required, anonymous=anonymous)

    def secrets(self, backends: book.Book, use: Callable[[Mapping[str, str]], None]) -> secrets.Secrets:
        """From files when the backends come from the environment, else from the apiserver."""
        if self._settings.gpu_backends is not None or self._settings.secrets_dir is not None:
            read = secrets.files(self._settings.secrets_dir)
        else:
            read = secrets.objects(self._secret)
            self._apiserver()
        return secrets.Secrets(backends, read, use, every=self._settings.secrets_every_seconds)

    def candidate(self) -> ha.Candidate | None:
        """None for a router without others. To be asked for before `source`, which writes under its Lease."""
        settings, host = self._settings, self._settings.address
        if not settings.lease:
            return None
        self._apiserver()
        import kube
        from router import ha

        where = f"[{host}]:{settings.port}" if ":" in host else f"{host}:{settings.port}" if host else ""
        self._candidate = ha.Candidate(
            kube.LeaseStore(self._loaded, settings.namespace, settings.lease, timeout=ha.TERMS.timeout),
            ha.identity(f"{os.uname().nodename}_{uuid.uuid4().hex[:8]}", where),
            holder=self._holder,
        )
        return self._candidate

    def usage_store(self) -> usagestore.ConfigMap | None:
        """Where usage is kept; None for memory alone."""
        if not self._settings.usage_config_map:
            return None
        self._apiserver()
        import kube
        from router import usagestore

        # Without the fence: a router that leaves adds its last counts when another one decides already.
        self._plain = kube.session(self._loaded, limit=1)
        api = kube.Kube(self._loaded, self._plain, fence=lambda: None)
        return usagestore.ConfigMap(api, self._settings.namespace, self._settings.usage_config_map)

    def source(self) -> objects.Source | None:
        """The watch over GpuBackend objects, not started; None when the settings give the backends."""
        if self._settings.gpu_backends is not None:
            return None
        from router.backends import objects

        return objects.Source(self._apiserver(), self._settings.namespace, leader=self._candidate)

    async def aclose(self) -> None:
        """End the connections to the apiserver."""
        for http in (self._http, self._plain):
            if http is not None:
                await http.close()

    async def _review(self, token: str) -> str | None:
        audiences = self._settings.token_audiences
        try:
            async with asyncio.timeout(_REVIEW_SECONDS):
                status = await self._apiserver().review(token, *audiences)
        except errors.JervisError as error:
            raise auth.Away(error.message) from error
        except TimeoutError as error:
            raise auth.Away("the Kubernetes API does not answer") from error
        if not status.get("authenticated") or (audiences and not {*(status.get("audiences") or ())} & {*audiences}):
            return None
        return str(status["user"]["username"])

    async def _secret(self, name: str) -> kube.Object:
        import kube

        return await self._apiserver().get(kube.SECRETS, self._settings.namespace, name)

    async def _holder(self) -> str:
        import kube

        try:
            found = await self._apiserver().get(kube.LEASES, self._settings.namespace, self._settings.lease)
        except kube.NotFound:
            return ""
        return (found.get("spec") or {}).get("holderIdentity") or ""

    def _apiserver(self) -> kube.Kube:
        if self._api is None:
            import kube

            settings = self._settings
            try:
                self._loaded = kube.configuration(settings.kubeconfig, home=False)
            except kube.Unconfigured as error:
                if settings.gpu_backends is not None:
                    raise
                raise kube.Unconfigured(
                    f"No backends: GPU_BACKENDS is not set. {error.message}",
                    field="GPU_BACKENDS",
                    remedy=f"Set GPU_BACKENDS to a JSON list of backends. {error.remedy}",
                ) from error
            self._http = kube.session(self._loaded, fence=self._fence, limit=_CONNECTIONS)
            self._api = kube.Kube(self._loaded, self._http, fence=self._fence)
        return self._api

    def _fence(self) -> None:
        """Of several routers only the one that decides writes."""
        if self._candidate is not None:
            self._candidate.check()
