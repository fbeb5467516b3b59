"""An apiserver whose answers a test makes up, and the kubeconfig that leads to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from tests import httpserver


@asynccontextmanager
async def serving(handler: httpserver.Handler, directory: Path) -> AsyncIterator[str]:
    """The path of the kubeconfig, for the length of the block."""
    async with httpserver.serving(handler) as url:
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
        path = directory / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        yield str(path)
