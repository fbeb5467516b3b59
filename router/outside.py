"""What depends on files or on the apiserver, built from the settings: the gate, backends' tokens, the Lease.

The `kubernetes` client costs 30 MiB, so it is imported only by a router that was told to use it.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from crds import errors
from router import auth
from router.backends import book, secrets
from router.settings import Settings

if TYPE_CHECKING:
    from router import ha, kube

# Paths that show nothing of anybody: liveness, the page without its data, what a client asks first.
FREE = ("/", "/healthz", "/readyz", "/activez", "/metrics", "/router", "/router/", "/router/openapi.json")


class Outside:
    """Builds on demand; the connection to the apiserver is made once."""

    def __init__(self, settings: Settings, *, now: Callable[[], float], wall: Callable[[], datetime]) -> None:
        self._settings = settings
        self._now = now
        self._wall = wall
        self._api: kube.Apiserver | None = None

    def gate(self) -> auth.Gate:
        """Raises auth.Invalid for a tokens' file that cannot be used, runtoken.Unusable for such keys."""
        settings, tokens, reviewed, runs = self._settings, None, None, None
        if settings.run_token_keys is not None:
            from router.runs import Runs

            runs = Runs(Path(settings.run_token_keys), monotonic=self._now, wall=self._wall).find
        if settings.tokens_file is not None:
            tokens = auth.Tokens(Path(settings.tokens_file))
            tokens.load()
        if settings.token_review:
            self._apiserver()  # a way that does not exist shall be known at the start
            reviewed = auth.Reviewed(
                self._review,
                auth.accounts(settings.allowed_accounts, settings.admin_accounts, settings.account_ceilings),
                now=self._now,
            )
        return auth.Gate(tokens, reviewed, runs=runs, free=FREE, required=settings.token_required)

    def secrets(self, backends: book.Book, use: Callable[[Mapping[str, str]], None]) -> secrets.Secrets:
        """From files when the backends come from the environment, else from the apiserver."""
        if self._settings.gpu_backends is not None or self._settings.secrets_dir is not None:
            read = secrets.files(self._settings.secrets_dir)
        else:
            read = self._apiserver().secret
        return secrets.Secrets(backends, read, use, every=self._settings.secrets_every_seconds)

    def candidate(self, changed: Callable[[bool], None]) -> ha.Candidate | None:
        """None for a router without others."""
        if not self._settings.lease:
            return None
        from router import ha

        settings, host = self._settings, self._settings.address
        where = f"[{host}]:{settings.port}" if ":" in host else f"{host}:{settings.port}" if host else ""
        me = ha.identity(f"{os.uname().nodename}_{uuid.uuid4().hex[:8]}", where)
        terms = ha.Terms(settings.lease, handover=settings.handover_seconds)
        return ha.Candidate(self._apiserver(), terms, me, now=self._now, changed=changed)

    async def _review(self, token: str) -> str | None:
        try:
            return await asyncio.to_thread(self._apiserver().review, token, self._settings.token_audiences)
        except errors.Operational as error:
            raise auth.Away(error.message) from error

    def _apiserver(self) -> kube.Apiserver:
        if self._api is None:
            from router import kube
            from router.backends.kube import connect

            self._api = kube.Apiserver(connect(self._settings.kubeconfig).api_client, self._settings.namespace)
        return self._api
