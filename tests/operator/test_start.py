"""What the operator does first, and what its selectors bring: a real apiserver, more objects than fit one page."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

import kube
from crds.phases import TERMINAL, UNFINISHED, Phase
from tests import waiting
from tests.operator.conftest import Space
from tests.operator.kubelet import Kubelet, Work
from tests.operator.process import Operator, Start
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]

STAMP = "2026-01-01T00:00:00Z"


async def write(api: kube.Kube, space: Space, name: str, **status: Any) -> None:
    """A status as an operator of yesterday has left it."""
    await api.merge(kube.TASKS, space.name, name, {"status": status}, "status")


async def queued(api: kube.Kube, space: Space, name: str) -> None:
    """A mail that has been qualified and waits for the GPU."""
    space.submit(name)
    passed = {"ReadyForQualification": STAMP, "Qualifying": STAMP, "ReadyForGpu": STAMP}
    await write(api, space, name, phase="ReadyForGpu", route={"decision": "Execute"}, phaseTimes=passed)


@pytest.mark.parametrize("setting", ["METRICS_PORT", "HISTORY_PORT"])
def test_a_port_in_use_ends_the_start_with_its_setting_and_a_remedy(
    kubeconfig: Path, space: Space, mongodb_uri: str, tmp_path: Path, setting: str
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        known = {"KUBECONFIG": kubeconfig, "NAMESPACE": space.name, "MONGODB_URI": mongodb_uri, setting: port}
        operator = Operator(tmp_path / "log", **known)
        assert operator.process.wait(waiting.PATIENCE) == 1
    log = operator.log.read_text()
    assert f"JERVIS_OPERATOR_{setting}: cannot listen on 127.0.0.1:{port}: Address already in use" in log
    assert "Set it to a free port." in log
    assert "Traceback" not in log


async def test_nothing_is_dispatched_before_all_is_known(
    api: kube.Kube, space: Space, start: Start, gpu: str, work: Work
) -> None:
    """By name, and so on the first page, come mails that wait; on the last one come the run that has the only slot
    and a user's question."""
    space.create("gpubackends", "GpuBackend", "gpu-0", {"url": gpu, "numParallel": 1})
    ready = {"type": "Ready", "status": "True", "reason": "Answered", "message": "", "lastTransitionTime": STAMP}
    await api.merge(kube.BACKENDS, space.name, "gpu-0", {"status": {"conditions": [ready]}}, "status")
    for number in range(120):
        await queued(api, space, f"a{number:03}")
    with Kubelet(space.api, space.name, work) as kubelet:
        space.submit("z-first", type="UserInputProcessing")
        with start(IDENTITY="operator-0") as operator:
            until(lambda: kubelet.order == ["z-first"], "the question goes first, though it is listed last")
            operator.kill()
        work.done |= set(space.phases())
        with start(IDENTITY="operator-0"):
            until(lambda: len(kubelet.order) >= 3, "the mails follow, one by one")
        assert kubelet.order[0] == "z-first"
        assert kubelet.duplicates() == []


async def test_the_selector_of_the_watch(kubeconfig: Path, api: kube.Kube, space: Space) -> None:
    """Pages, leaving by being finished, and the bookmark that says where the watch stands, all by field."""
    for number in range(12):
        space.submit(f"t{number:02}")
    for number, phase in enumerate((Phase.QUALIFYING, *sorted(TERMINAL))):
        await write(api, space, f"t{number:02}", phase=phase.value)
    live = [raw["metadata"]["name"] async for raw in api.each(kube.TASKS, space.name, fields=UNFINISHED, page=2)]
    assert sorted(live) == ["t00", *(f"t{number:02}" for number in range(4, 12))]
    done = [raw async for raw in api.each(kube.TASKS, space.name, fields="status.phase=Done", page=2)]
    assert [raw["status"]["phase"] for raw in done] == ["Done"]
    loaded = kube.configuration(str(kubeconfig))
    seen = await _watched(loaded, space, lambda: write(api, space, "t00", phase="Completed"))
    first = [name for kind, name in seen[:9] if kind == "ADDED"]
    assert sorted(first) == sorted(live)
    assert seen[9][0] == "BOOKMARK"
    assert seen[10] == ("DELETED", "t00"), "finished is gone, as far as the watch is concerned"


async def _watched(loaded: Any, space: Space, then: Callable[[], Any]) -> list[tuple[str, str]]:
    """(event type, name) until the first deletion; `then` is called once the bookmark has come."""
    params = {
        "watch": "true",
        "fieldSelector": UNFINISHED,
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
    }
    seen: list[tuple[str, str]] = []
    path = kube.TASKS.path(space.name)
    # As our own client does: Kubernetes 1.37 compresses a watch that begins with a list, and the latest events of it
    # stay in a buffer.
    async with (
        httpx.AsyncClient(base_url=loaded.host, verify=kube.tls(loaded), timeout=60) as http,
        http.stream("GET", path, params=params, headers={"Accept-Encoding": "identity"}) as response,
    ):
        async for line in response.aiter_lines():
            event = orjson.loads(line)
            seen.append((event["type"], event["object"]["metadata"].get("name", "")))
            if event["type"] == "BOOKMARK":
                await then()
            if event["type"] == "DELETED":
                break
    return seen
