"""How soon does the router follow what changes around it? A real apiserver, two router processes, one Lease.

    python -m bench.router.changes --times 5

`added` and `removed`: from the apiserver's answer to the creation or deletion of a GpuBackend until the router serves
its model, or refuses it. `killed` and `left`: from SIGKILL or SIGTERM of the router that decides until the other one
answers a request. Seconds, medians and maxima; exit status 1 beyond 2 s for a backend and 5 s for a router.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client, config

from bench.router import run
from hack.cluster import standalone

_BACKENDS = ("jervis.dev", "v1alpha1", "default", "gpubackends")
_BODY = json.dumps({"model": "embed", "input": "x"}).encode()
_BOUNDS = {"added": 2.0, "removed": 2.0, "killed": 5.0, "left": 5.0}
_PATIENCE = 60.0


def _status(port: int) -> int:
    """Of one embedding; 0 when there is no answer."""
    asked = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/embed", data=_BODY, headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(asked, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def _until(port: int, wanted: set[int]) -> float:
    """Seconds until the router answers with one of these statuses."""
    begun = time.monotonic()
    while _status(port) not in wanted:
        if time.monotonic() - begun > _PATIENCE:
            raise SystemExit(f"no answer with {wanted} within {_PATIENCE:g} s")
        time.sleep(0.005)
    return time.monotonic() - begun


@contextlib.contextmanager
def _api() -> Iterator[Path]:
    """An apiserver that knows our kinds; its kubeconfig."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-router-") as directory,
        standalone.apiserver(Path(directory)) as server,
    ):
        config.load_kube_config(str(server.kubeconfig))  # type: ignore[no-untyped-call]  # kubernetes ships no types
        kinds = client.ApiextensionsV1Api()
        for path in sorted((run.ROOT / "crds").glob("*.yaml")):
            kinds.create_custom_resource_definition(yaml.safe_load(path.read_text()))
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(client.ApiException):
                client.CustomObjectsApi().list_namespaced_custom_object(*_BACKENDS)
                break
            time.sleep(0.1)
        yield server.kubeconfig


def _router(kubeconfig: Path) -> tuple[subprocess.Popen[bytes], int]:
    given = {"KUBECONFIG": str(kubeconfig), "NAMESPACE": "default", "LEASE": "router", "PORT": "0", "HOST": "127.0.0.1"}
    return run.start(["-m", "router"], {f"JERVIS_ROUTER_{key}": value for key, value in given.items()}, "serving")


def _measure(times: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in _BOUNDS}
    with _api() as kubeconfig, contextlib.ExitStack() as stack:
        objects = client.CustomObjectsApi()
        server, where = run.start(["-m", "bench.router.backend"], {}, "listening")
        stack.callback(server.kill)
        body = {
            "apiVersion": "jervis.dev/v1alpha1",
            "kind": "GpuBackend",
            "metadata": {"name": "gpu-0"},
            "spec": {"url": f"http://127.0.0.1:{where}", "kind": "GPU"},
        }
        active, port = _router(kubeconfig)
        stack.callback(lambda: active.kill())
        for _ in range(times):
            _until(port, {404, 503})
            objects.create_namespaced_custom_object(*_BACKENDS, body)
            found["added"].append(_until(port, {200}))
            objects.delete_namespaced_custom_object(*_BACKENDS, "gpu-0")
            found["removed"].append(_until(port, {404, 503}))
        objects.create_namespaced_custom_object(*_BACKENDS, body)
        _until(port, {200})
        for name, how in (("killed", signal.SIGKILL), ("left", signal.SIGTERM)):
            for _ in range(times):
                standby, next_port = _router(kubeconfig)
                stack.callback(standby.kill)
                _until(next_port, {503})
                time.sleep(1.0)  # it has seen the Lease, and the backend
                active.send_signal(how)
                found[name].append(_until(next_port, {200}))
                active.wait(60)
                active = standby
    return found


def main() -> int:
    """0 when all is within its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=5, help="each measurement so often")
    found = _measure(parser.parse_args().times)
    document: dict[str, Any] = {
        name: {"median": round(statistics.median(each), 3), "most": round(max(each), 3), "bound": _BOUNDS[name]}
        for name, each in found.items()
    }
    print(json.dumps({**document, "load_average": os.getloadavg()}, indent=2))
    return 0 if all(max(each) <= _BOUNDS[name] for name, each in found.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
