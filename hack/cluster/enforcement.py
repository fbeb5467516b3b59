"""The process that keeps the packet filter as the NetworkPolicies say: it follows the API and calls nft at a change.

`python -m hack.cluster.enforcement URL CA CERTIFICATE KEY`, in the namespace of the cluster. It ends by a signal; the
filter stays as it was and goes with the namespace.
"""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from hack.cluster import certificates, netns, networkpolicies
from hack.cluster.layout import CHECKOUT, Layout
from hack.cluster.networkpolicies import Object

_PATHS = ("/api/v1/pods", "/api/v1/namespaces", "/apis/networking.k8s.io/v1/networkpolicies")
_WATCH_SECONDS = 600
_PAUSE = 0.5


def command(layout: Layout, ca: Path, user: certificates.Pair) -> list[str | Path]:
    program = ["env", f"PYTHONPATH={CHECKOUT}", sys.executable, "-m", "hack.cluster.enforcement"]
    return [*program, layout.endpoint.url, ca, user.certificate, user.key]


def ready(layout: Layout) -> bool:
    """True when the filter is loaded."""
    listing = [*netns.prefix(layout), "nft", "list", "table", "inet", networkpolicies.TABLE]
    return subprocess.run(listing, capture_output=True).returncode == 0


class _Mirror:
    """The objects below one path of the API, as they are now; `changed` is set after each change."""

    def __init__(self, url: str, tls: ssl.SSLContext, path: str, changed: threading.Event) -> None:
        self._server = urlsplit(url).netloc
        self._tls = tls
        self._path = path
        self._changed = changed
        self.objects: dict[str, Object] | None = None  # by uid; None before the first answer

    def follow(self) -> None:
        """List and watch, for ever: whatever breaks off is begun anew."""
        while True:
            try:
                self._once()
            except (OSError, http.client.HTTPException, ValueError) as error:
                print(f"{self._path}: {error}", file=sys.stderr, flush=True)
                time.sleep(_PAUSE)

    def _once(self) -> None:
        listed = json.loads(b"".join(self._get("")))
        self._take({one["metadata"]["uid"]: one for one in listed["items"]})
        version = listed["metadata"]["resourceVersion"]
        for line in self._get(f"?watch=1&resourceVersion={version}&timeoutSeconds={_WATCH_SECONDS}"):
            event = json.loads(line)
            if event["type"] == "ERROR":  # the version is too old
                return
            objects, uid = dict(self.objects or {}), event["object"]["metadata"]["uid"]
            if event["type"] == "DELETED":
                objects.pop(uid, None)
            else:
                objects[uid] = event["object"]
            self._take(objects)

    def _take(self, objects: dict[str, Object]) -> None:
        self.objects = objects
        self._changed.set()

    def _get(self, query: str) -> Iterator[bytes]:
        connection = http.client.HTTPSConnection(self._server, context=self._tls, timeout=_WATCH_SECONDS + 60)
        try:
            connection.request("GET", self._path + query)
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                raise http.client.HTTPException(f"{answer.status}: {answer.read().decode(errors='replace')[:300]}")
            yield from answer
        finally:
            connection.close()


def main(url: str, ca: str, certificate: str, key: str) -> None:
    """Never returns."""
    tls = ssl.create_default_context(cafile=ca)
    tls.load_cert_chain(certificate, key)
    changed = threading.Event()
    mirrors = [_Mirror(url, tls, path, changed) for path in _PATHS]
    for mirror in mirrors:
        threading.Thread(target=mirror.follow, daemon=True).start()
    loaded = ""
    while True:
        changed.wait()
        changed.clear()
        known = [mirror.objects for mirror in mirrors]
        pods, namespaces, policies = ([*(objects or {}).values()] for objects in known)
        wanted = networkpolicies.script(pods, namespaces, policies)
        if None in known or wanted == loaded:
            continue
        done = subprocess.run(["nft", "-f", "-"], input=wanted, capture_output=True, text=True)
        if done.returncode == 0:
            loaded = wanted
        else:
            print(f"{done.stderr}\n{wanted}", file=sys.stderr, flush=True)
            time.sleep(_PAUSE)
            changed.set()


if __name__ == "__main__":
    main(*sys.argv[1:])
