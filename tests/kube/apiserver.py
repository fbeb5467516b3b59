"""An apiserver whose answers a test gives, and the operator's client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kubernetes import client

import kube
from tests import httpserver


@asynccontextmanager
async def serving(handler: httpserver.Handler, method: str = "GET") -> AsyncIterator[kube.Kube]:
    """A client without a fence; `handler` answers it, requests by another method are refused."""
    async with httpserver.serving(handler, method=method) as url:
        loaded = configuration(url)
        async with kube.session(loaded) as http:
            yield kube.Kube(loaded, http, fence=lambda: None)


def configuration(url: str) -> Any:
    """That of a client of the apiserver at `url`."""
    loaded: Any = client.Configuration()
    loaded.host = url
    return loaded
