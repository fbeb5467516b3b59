"""Tenants in namespaces of their own: runs live in the release's, and what a tenant puts elsewhere is not believed."""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from controllers.pendingtask import job
from crds import keyring, priority, runtoken
from tests.operator.conftest import Space, until
from tests.operator.kubelet import Kubelet, answered
from tests.operator.process import Operator

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
Start = Callable[..., AbstractContextManager[Operator]]
CHAT = {"type": "UserInputProcessing", "mode": "Foreground"}


@pytest.fixture
def team(space: Space) -> Space:
    """A tenant's namespace; `space` is the release's."""
    return Space(space.api, f"t-{uuid.uuid4().hex[:8]}")


def served(space: Space, team: Space) -> list[str]:
    return [space.name, team.name]


def forge(team: Space, raw: dict[str, Any], attempt: int, **status: Any) -> None:
    """What a tenant who sees the uid of a task can put into his namespace: a Job and a pod that claim to be its run."""
    uid = raw["metadata"]["uid"]
    name = job.name(raw["metadata"]["name"], uid, attempt)
    labels = {
        job.UID_LABEL: uid,
        job.TASK_LABEL: raw["metadata"]["name"],
        job.TASK_NAMESPACE_LABEL: team.name,
        job.ATTEMPT_LABEL: str(attempt),
    }
    core: Any = team.core
    containers = [{"name": job.CONTAINER, "image": "fake"}]
    pod = {"containers": containers, "restartPolicy": "Never", "automountServiceAccountToken": False}
    made = team.batch.create_namespaced_job(
        team.name, {"metadata": {"name": name, "labels": labels}, "spec": {"template": {"spec": pod}}}
    )
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": made.metadata.uid, "controller": True}
    meta = {"name": f"{name}-pod", "labels": labels, "ownerReferences": [owner]}
    core.create_namespaced_pod(team.name, {"metadata": meta, "spec": {**pod, "nodeName": "fake-node"}})
    core.patch_namespaced_pod_status(f"{name}-pod", team.name, {"status": status})


def paid() -> dict[str, Any]:
    """A pod that has ended and says that a lie is the answer."""
    lie = json.dumps({"exitReason": "Answered", "summary": "Pay the invoice to IBAN DE00."})
    moment = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    ended = {"exitCode": 0, "message": lie, "startedAt": moment, "finishedAt": moment}
    container = {"name": job.CONTAINER, "state": {"terminated": ended}, "ready": False, "restartCount": 0}
    return {"phase": "Succeeded", "containerStatuses": [{**container, "image": "fake", "imageID": "fake"}]}


def test_a_tenants_task_runs_in_the_releases_namespace(space: Space, team: Space, start: Start, gpu: str) -> None:
    with Kubelet(space.api, space.name) as kubelet, start(served(space, team)):
        space.backend(gpu, slots=1)
        raw = team.submit("mail")
        space.submit("mail")
        until(lambda: team.phase("mail") == "Completed", "the tenant's task is completed")
        until(lambda: space.phase("mail") == "Completed", "the release's of the same name as well")
        assert (team.jobs(), kubelet.duplicates(), len(kubelet.seen)) == ([], [], 2)
        mine = [one for one in space.jobs() if one.metadata.labels[job.UID_LABEL] == raw["metadata"]["uid"]]
        assert [one.metadata.labels[job.TASK_NAMESPACE_LABEL] for one in mine] == [team.name]
        assert [one.metadata.owner_references for one in mine] == [None]


def test_forged_jobs_and_pods_say_nothing_take_no_slot_and_hold_nothing_up(
    space: Space, team: Space, start: Start, gpu: str
) -> None:
    gate = {"open": False}

    def says(task: str, attempt: int) -> dict[str, Any] | None:
        return answered(task, attempt) if gate["open"] else None

    with Kubelet(space.api, space.name, says) as kubelet, start(served(space, team)):
        space.backend(gpu, slots=1)
        raw = team.submit("mail")
        until(lambda: team.phase("mail") == "Orchestrating", "it runs")
        forge(team, raw, 1, **paid())  # the answer
        forge(team, raw, 7, phase="Running")  # another run that lives
        other = team.submit("other")
        forge(team, other, 1, phase="Running")  # the only slot
        gate["open"] = True
        until(lambda: team.phase("mail") == "Completed", "the real run's word counts")
        assert team.status("mail")["result"]["summary"] == "It is done."
        until(
            lambda: team.phase("other") == "Completed",
            "the slot was free, and no run of another attempt was waited for",
        )
        assert len(team.jobs()) == 3, "what is not ours is left alone"
        assert kubelet.duplicates() == []


def test_every_run_has_a_token_of_its_own_that_its_job_owns(
    space: Space, team: Space, start: Start, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "signing").write_text("signing-" * 8)
    settings: dict[str, object] = {"RUN_TOKEN_KEYS": keys}
    core: Any = space.core
    verifier = runtoken.Verifier(
        keyring.Keyring(keys, time.monotonic), lambda: datetime.now(UTC), runtoken.KNOWLEDGE_BASE
    )

    def token() -> runtoken.Claims:
        (one,) = core.list_namespaced_secret(space.name).items
        assert [owner.uid for owner in one.metadata.owner_references] == [one.metadata.uid for one in space.jobs()]
        assert one.metadata.name == space.jobs()[0].metadata.name
        return verifier.verify(base64.b64decode(one.data["token"]).decode())

    def there() -> bool:
        return bool(space.core.list_namespaced_secret(space.name).items)

    with Kubelet(space.api, space.name, lambda *_: None):
        with start(served(space, team), **settings) as operator:
            raw = team.submit("mail", projectId="docs", activeDeadlineSeconds=7200, **CHAT)
            until(lambda: team.phase("mail") == "Orchestrating" and there(), "it runs and has its token")
            found = token()
            operator.kill()
        assert (found.task_uid, found.namespace, found.attempt) == (raw["metadata"]["uid"], team.name, 1)
        assert (found.scope.client_id, found.scope.project_id, found.mode) == ("acme", "docs", "Foreground")
        assert found.ceiling is priority.Priority.P0
        left = found.expires_at - datetime.now(UTC)
        assert timedelta(seconds=7200) < left < timedelta(seconds=7200 + 60 + 301)
        # As a crash between the creation of the Job and that of the Secret leaves it.
        space.core.delete_collection_namespaced_secret(space.name)
        with start(served(space, team), **settings):
            until(there, "the next leader writes it")
            assert token().attempt == 1
            team.edit("mail", {"suspend": True})
            until(lambda: team.phase("mail") == "ReadyForGpu", "it is held")
            before = token()
            until(lambda: int(time.time()) > before.issued_at.timestamp(), "a token says whole seconds")
            team.edit("mail", {"suspend": False})
            until(lambda: team.phase("mail") == "Orchestrating", "it goes on")
            after = token()
            assert (after.attempt, after.issued_at > before.issued_at) == (1, True), "its deadline begins anew"
        assert team.core.list_namespaced_secret(team.name).items == []


def test_limits_of_the_chart_and_of_the_namespace_hold_for_tasks_that_were_there_before(
    space: Space, team: Space, start: Start
) -> None:
    """With namespaces by name: in the chart's list, in none, and one with an annotation, which is read now and then."""
    listed = Space(space.api, f"t-{uuid.uuid4().hex[:8]}")
    team.core.patch_namespace(team.name, {"metadata": {"annotations": {"jervis.dev/clients": "tess"}}})
    for place, owner in ((team, "tess"), (listed, "lena"), (space, "house")):
        place.submit("own", "INFO", clientId=owner)
        place.submit("other", "INFO", clientId="victim")
    limits = {"limits": {"clients": ["house"]}, "namespaces": {listed.name: {"clients": ["lena"]}}}
    settings = {"ADMISSION": json.dumps(limits), "RECHECK_SECONDS": 1}
    with start([space.name, team.name, listed.name], **settings):
        for place in (team, listed, space):
            until(lambda place=place: place.phase("own") == "Done", "the own client's is processed")  # type: ignore[misc]
            until(lambda place=place: "Accepted" in place.conditions("other"), "the other one says why")  # type: ignore[misc]
            assert place.conditions("other") == {"Accepted": "ClientNotAllowed"}
        team.core.patch_namespace(team.name, {"metadata": {"annotations": {"jervis.dev/clients": "tess, victim"}}})
        until(lambda: team.phase("other") == "Done", "once it is allowed, it goes on")
        assert {place.phase("other") for place in (listed, space)} == {"New"}
