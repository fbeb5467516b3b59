"""The warm pool on a real kubelet: a pod that waits gets a task, and dies before and after it has one.

The release of the other tests gets a pool for these and loses it again. A gate in the simulator holds the model's
answers back where a pod is to be killed at work; nothing here waits for a clock.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crds import labels
from crds.phases import Phase
from tests import thorough
from tests.e2e import processes
from tests.e2e.simulator import GATE, Simulator
from tests.e2e.site import UID_LABEL, Document, Site
from tests.e2e.test_kill import work
from tests.waiting import until

_STALLED = {"match": {"tag": "job.respond/v1"}, "times": 1, "stall": {"afterBytes": 0, "gate": GATE}}


@pytest.fixture(scope="module")
def pool(site: Site) -> Iterator[Site]:
    """The release with a pool of one pod."""
    site.upgrade("job.warmPool.size=1")
    yield site
    site.upgrade("job.warmPool.size=0")
    until(lambda: not _pods(site), "the pool is gone")


def _pods(site: Site) -> list[Document]:
    """Pods without a task."""
    return site.pods(f"{labels.TASK_UID}={labels.NO_TASK}")


def _waiting(site: Site, but: str = "") -> Document:
    """The pod that has asked for a task, another one than that of the uid `but`."""

    def look() -> list[Document]:
        running = [pod for pod in _pods(site) if pod["status"].get("phase") == "Running"]
        return [pod for pod in running if pod["metadata"]["uid"] != but and _has_asked(pod)]

    (pod,) = until(look, "a pod waits for a task")
    return pod


def _has_asked(pod: Document) -> bool:
    return labels.HANDOVER in (pod["metadata"].get("annotations") or {})


def _job(pod: Document) -> str:
    return str(pod["metadata"]["ownerReferences"][0]["name"])


def test_a_task_is_done_by_the_pod_that_waited(pool: Site, owner: str, gpu: Simulator) -> None:
    before = _waiting(pool)
    tasks = work("warm-ask", 1)
    pool.apply("warm-ask", tasks, owner)
    (ended,) = pool.ends("warm-ask", dict.fromkeys(tasks, Phase.COMPLETED)).values()
    (pod,) = pool.pods(f"{UID_LABEL}={ended.metadata.uid}")
    assert pod["metadata"]["uid"] == before["metadata"]["uid"]
    assert pool.jobs([ended]) == {(ended.metadata.uid, 1): 1}
    (run,) = pool.kubectl.items("jobs", "-l", f"{UID_LABEL}={ended.metadata.uid}")
    assert run["metadata"]["name"] == _job(before)
    assert len(pool.results(ended)) == 1
    assert _waiting(pool)["metadata"]["uid"] != before["metadata"]["uid"], "a pod is used once"


@thorough.only
def test_a_pod_that_is_killed_while_it_waits_is_replaced(pool: Site) -> None:
    if not pool.wanted.local:
        pytest.skip("the processes of your cluster are not on this machine")
    before = _waiting(pool)
    processes.kill(before)
    after = _waiting(pool, but=before["metadata"]["uid"])
    assert _job(after) != _job(before)
    until(lambda: _job(before) not in _jobs(pool), "the dead one is deleted")


def test_a_pod_that_is_killed_at_work_is_a_lost_run(pool: Site, owner: str, gpu: Simulator) -> None:
    before = _waiting(pool)
    gpu.faults(_STALLED)
    tasks = work("warm-kill", 1)
    pool.apply("warm-kill", tasks, owner)
    until(lambda: gpu.waiting() == 1, "the run asks the model")
    pool.kubectl.run("delete", "pod", before["metadata"]["name"], "--grace-period=0", "--force", "--wait=false")
    (ended,) = pool.ends("warm-kill", dict.fromkeys(tasks, Phase.COMPLETED), seconds=180).values()
    assert pool.jobs([ended]) == {(ended.metadata.uid, attempt): 1 for attempt in (1, 2)}
    assert len(pool.results(ended)) == 1


@thorough.only
def test_another_template_replaces_the_pod_that_waits(pool: Site) -> None:
    before = _waiting(pool)
    pool.upgrade("job.annotations.example\\.com/changed=yes")
    after = _waiting(pool, but=before["metadata"]["uid"])
    assert after["metadata"]["annotations"]["example.com/changed"] == "yes"
    until(lambda: _job(before) not in _jobs(pool), "the older one is gone")


def _jobs(site: Site) -> set[str]:
    return {job["metadata"]["name"] for job in site.kubectl.items("jobs", "-l", labels.WARM)}
