"""A way for the pods of the local cluster to an Ollama on this machine or behind it.

Pods of the local cluster reach nothing but the host's end of the cable. A second router, on that address, passes their
requests on: it streams byte for byte and sends the Host that Ollama expects, which a plain TCP relay would not.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import urllib.error
import urllib.request
from urllib.parse import urlsplit

from hack.cluster import layout, process, progress
from hack.demo import errors
from hack.demo.settings import Settings

PORT = 11439
# How much may be under way at once is the router's decision in the cluster, not the relay's.
_PARALLEL = 64


def ensure(wanted: Settings, cluster: layout.Layout, report: progress.Progress) -> Settings:
    """Settings whose `ollama_url` the pods can reach. Raises errors.Failure when nothing answers at the given one."""
    if not wanted.local or not wanted.ollama_url:
        return wanted
    _answers(wanted.ollama_url)
    if urlsplit(wanted.ollama_url).hostname == cluster.host:
        return wanted
    relay = _daemon(cluster)
    backend = {"name": "ollama", "kind": "GPU", "url": wanted.ollama_url, "numParallel": _PARALLEL}
    here = f"http://{cluster.host}:{PORT}"
    with report.step(f"relaying {wanted.ollama_url} to the pods"):
        relay.stop()  # it may still point at another Ollama
        relay.start(
            [sys.executable, "-m", "router"],
            env={
                "GPU_BACKENDS": json.dumps([backend]),
                "JERVIS_ROUTER_HOST": cluster.host,
                "JERVIS_ROUTER_PORT": str(PORT),
                "PYTHONPATH": str(wanted.checkout),
            },
        )
        relay.wait(lambda: _ready(f"{here}/readyz"), seconds=30)
    return dataclasses.replace(wanted, ollama_url=here)


def remove(cluster: layout.Layout) -> None:
    """Stop the relay if there is one."""
    _daemon(cluster).stop()


def _daemon(cluster: layout.Layout) -> process.Daemon:
    return process.Daemon("ollama-relay", cluster.directory / "relay")


def _answers(url: str) -> None:
    try:
        urllib.request.urlopen(f"{url}/api/version", timeout=10).close()  # noqa: S310 -- settings took http(s) only
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise errors.Failure(
            f"OLLAMA_URL={url}: no Ollama answers there ({error}); start it or correct the URL"
        ) from error


def _ready(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=2).close()  # noqa: S310 -- our own address
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False
    return True
