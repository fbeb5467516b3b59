"""Tenants in namespaces of their own: runs live in the release's, and what a tenant puts elsewhere is not believed."""

from __future__ import annotations

import base64
import json
import time
import uuid
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from contracts.tokens import keyring, live_runs, runtoken
from controllers.pendingtask import job
from crds import priority
from tests.fakes import nodes
from tests.operator import accounts
from tests.operator.conftest import SIGNING, Space
from tests.operator.kubelet import Kubelet, Work, never
from tests.operator.process import Operator, Start
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
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
    spec = {"template": {"metadata": {"labels": labels}, "spec": nodes.POD}}
    made = team.batch.create_namespaced_job(team.name, {"metadata": {"name": name, "labels": labels}, "spec": spec})
    team.core.create_namespaced_pod(
        team.name, nodes.pod({"metadata": {"name": name, "uid": made.metadata.uid}, "spec": spec}, f"{name}-pod")
    )
    team.core.patch_namespaced_pod_status(f"{name}-pod", team.name, {"status": status})


def paid() -> dict[str, Any]:
    """A pod that has ended and says that a lie is the answer."""
    lie = {"exitReason": "Answered", "summary": "Pay the invoice to IBAN DE00."}
    return nodes.pod_status("Succeeded", nodes.ended(0, lie))


def test_a_tenants_task_runs_in_the_releases_namespace(space: Space, team: Space, start: Start) -> None:
    with Kubelet(space.api, space.name) as kubelet, start(served(space, team), slots=1):
        raw = team.submit("mail")
        space.submit("mail")
        until(lambda: team.phase("mail") == "Completed", "the tenant's task is completed")
        until(lambda: space.phase("mail") == "Completed", "the release's of the same name as well")
        assert (team.jobs(), kubelet.duplicates(), len(kubelet.seen)) == ([], [], 2)
        mine = [one for one in space.jobs() if one.metadata.labels[job.UID_LABEL] == raw["metadata"]["uid"]]
        assert [one.metadata.labels[job.TASK_NAMESPACE_LABEL] for one in mine] == [team.name]
        assert [one.metadata.owner_references for one in mine] == [None]


def test_forged_jobs_and_pods_say_nothing_take_no_slot_and_hold_nothing_up(
    space: Space, team: Space, start: Start, work: Work
) -> None:
    with Kubelet(space.api, space.name, work) as kubelet, start(served(space, team), slots=1):
        raw = team.submit("mail")
        until(lambda: team.phase("mail") == "Orchestrating", "it runs")
        forge(team, raw, 1, **paid())  # the answer
        forge(team, raw, 7, phase="Running")  # another run that lives
        other = team.submit("other")
        forge(team, other, 1, phase="Running")  # the only slot
        work.done |= {"mail", "other"}
        until(lambda: team.phase("mail") == "Completed", "the real run's word counts")
        assert team.status("mail")["result"]["summary"] == "It is done."
        until(
            lambda: team.phase("other") == "Completed",
            "the slot was free, and no run of another attempt was waited for",
        )
        assert len(team.jobs()) == 3, "what is not ours is left alone"
        assert kubelet.duplicates() == []


def claims(keys: Path, secret: Any) -> runtoken.Claims:
    """What the token in a run's Secret says."""
    ring = keyring.Keyring(keys, time.monotonic)
    verifier = runtoken.Verifier(ring, lambda: datetime.now(UTC), runtoken.KNOWLEDGE_BASE)
    return verifier.verify(base64.b64decode(secret.data["token"]).decode())


def test_every_run_has_a_token_of_its_own_that_its_job_owns(
    space: Space, team: Space, start: Start, keys: Path
) -> None:
    settings: dict[str, object] = {"RUN_TOKEN_KEYS": keys, "IDENTITY": "operator-0"}

    def token() -> runtoken.Claims:
        (one,) = space.core.list_namespaced_secret(space.name).items
        assert [owner.uid for owner in one.metadata.owner_references] == [one.metadata.uid for one in space.jobs()]
        assert one.metadata.name == space.jobs()[0].metadata.name
        return claims(keys, one)

    def there() -> bool:
        return bool(space.core.list_namespaced_secret(space.name).items)

    with Kubelet(space.api, space.name, never):
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


def test_a_background_run_says_its_mode_and_asks_models_as_every_orchestrator(
    space: Space, team: Space, start: Start, keys: Path
) -> None:
    """Seed 000 "Priority Levels": P0 is the orchestrator's; what keeps Background work back is its slot."""
    with (
        Kubelet(space.api, space.name, never),
        start(served(space, team), slots=1, RUN_TOKEN_KEYS=keys),
    ):
        team.bring("Orchestrating", "mail")
        (secret,) = space.core.list_namespaced_secret(space.name).items
        found = claims(keys, secret)
        assert (found.mode, found.ceiling) == ("Background", priority.Priority.P0)


def dispatched(space: Space, name: str) -> dict[str, str]:
    return space.condition(name, "Dispatched")


def test_a_quota_of_the_releases_namespace_is_told_to_every_tenant_and_over_when_it_is_lifted(
    space: Space, team: Space, start: Start
) -> None:
    """It refuses the Jobs of all tasks."""
    other = Space(space.api, f"t-{uuid.uuid4().hex[:8]}")
    space.quota("jobs.batch", 0)
    tasks = [(one, f"mail-{number}") for one in (team, other) for number in range(3)]
    with (
        Kubelet(space.api, space.name) as kubelet,
        start([space.name, team.name, other.name], slots=2, WAIT_REASON_SECONDS=1) as operator,
    ):
        for one, name in tasks:
            one.submit(name)
        until(lambda: operator.metric("jervis_operator_dispatch_breaker_open") == 1, "dispatching rests")
        said = f"quota or policy of the release's namespace {space.name}"
        until(lambda: all(said in dispatched(one, name)["message"] for one, name in tasks), "every task says why")
        reasons = {dispatched(one, name)["reason"] for one, name in tasks}
        assert "CircuitOpen" in reasons <= {"CircuitOpen", "DispatchFailed"}
        space.core.delete_namespaced_resource_quota("most", space.name)
        until(lambda: all(one.phase(name) == "Completed" for one, name in tasks), "all go on by themselves")
        assert {one.status(name)["attempt"] for one, name in tasks} == {1}
        assert (len(kubelet.seen), kubelet.duplicates()) == (len(tasks), [])
        assert operator.metric("jervis_operator_dispatch_breaker_open") == 0


def secrets(space: Space) -> list[str]:
    return [one.metadata.name for one in space.core.list_namespaced_secret(space.name).items]


def test_a_token_that_may_not_be_written_is_a_failed_dispatch_until_it_may(
    space: Space, team: Space, start: Start, keys: Path, kubeconfig: Path, tmp_path: Path
) -> None:
    account = accounts.Account(space.api, space.name)
    for one in (space, team):
        account.allow(one.name)
    limited = account.kubeconfig(kubeconfig, tmp_path / "limited")
    posts, puts = (f'jervis_operator_api_requests_total{{code="403",verb="{verb}"}}' for verb in ("POST", "PUT"))
    with (
        Kubelet(space.api, space.name) as kubelet,
        start(served(space, team), KUBECONFIG=limited, RUN_TOKEN_KEYS=keys) as operator,
    ):
        kubelet.absent = True  # as the kubelet, which waits for the Secret
        team.submit("ask", **CHAT)
        until(lambda: team.status("ask").get("retry", {}).get("count", 0) >= 2, "it was tried twice")
        said = dispatched(team, "ask")
        assert said["reason"] == "TokenNotWritten"
        assert "secrets" in said["message"]
        assert said["message"].endswith(f"See the quota or policy of the release's namespace {space.name}.")
        tries = 'jervis_operator_retries_total{reason="TokenNotWritten"}'
        # A try is counted by its requests first, and once it is written as a try.
        until(
            lambda: operator.metric(posts) == operator.metric(puts) == operator.metric(tries),
            "no try but those that are counted",
        )
        assert team.phase("ask") == "DispatchedGpu", "its pod keeps the slot"
        account.allow_tokens(space.name)
        until(lambda: secrets(space) == [one.metadata.name for one in space.jobs()], "it is written")
        kubelet.absent = False
        until(lambda: team.phase("ask") == "Completed", "the same run goes on")
        assert (team.status("ask")["attempt"], len(kubelet.seen)) == (1, 1)
        assert "retry" not in team.status("ask")


def test_a_token_that_the_apiserver_does_not_accept_asks_a_person(
    space: Space, team: Space, start: Start, keys: Path
) -> None:
    with (
        secrets_are_refused(space),
        Kubelet(space.api, space.name) as kubelet,
        start(served(space, team), RUN_TOKEN_KEYS=keys),
    ):
        kubelet.absent = True
        team.bring("UserTask", "ask", **CHAT)
        assert (team.status("ask")["userTask"]["kind"], dispatched(team, "ask")["reason"]) == (
            "Failure",
            "TokenNotWritten",
        )
        assert "no Secrets here" in dispatched(team, "ask")["message"]
        until(lambda: space.jobs() == [], "its Job, which cannot start, is gone")


def secrets_are_refused(space: Space) -> AbstractContextManager[None]:
    """With 422."""
    rule = {"apiGroups": [""], "resources": ["secrets"], "operations": ["CREATE"]}
    validation = {"expression": "false", "message": "no Secrets here", "reason": "Invalid"}

    def refused() -> bool:
        try:
            space.core.create_namespaced_secret(space.name, {"metadata": {"name": "probe"}}, dry_run="All")
        except client.ApiException as error:
            return bool(error.status == 422)
        return False

    return accounts.policy(space, rule, validation, refused)


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
    with start([space.name, team.name, listed.name], RESYNC_SECONDS=3, **settings):
        for place in (team, listed, space):
            until(lambda place=place: place.phase("own") == "Done", "the own client's is processed")  # type: ignore[misc]
            until(lambda place=place: "Accepted" in place.conditions("other"), "the other one says why")  # type: ignore[misc]
            assert place.conditions("other") == {"Accepted": "ClientNotAllowed"}
        team.core.patch_namespace(team.name, {"metadata": {"annotations": {"jervis.dev/clients": "tess, victim"}}})
        until(lambda: team.phase("other") == "Done", "once it is allowed, it goes on")
        assert {place.phase("other") for place in (listed, space)} == {"New"}


def heard(operator: Operator) -> live_runs.Live:
    answer = operator.history(live_runs.PATH, "")
    assert answer.status_code == 200, answer.text
    return live_runs.parse(answer.text, runtoken.ring([SIGNING.encode()]))


def test_it_is_listed_while_it_runs_and_no_longer(space: Space, start: Start, keys: Path) -> None:
    with Kubelet(space.api, space.name, never):
        with start(slots=2, RUN_TOKEN_KEYS=keys) as operator:
            uids = {name: str(space.submit(name)["metadata"]["uid"]) for name in ("mail", "other")}
            until(lambda: heard(operator).runs == dict.fromkeys(uids.values(), 1), "both run")
            space.edit("mail", {"suspend": True})
            until(lambda: heard(operator).stopped == {uids["mail"]}, "it is suspended")
            assert heard(operator).runs == {uids["other"]: 1}
            with start(RUN_TOKEN_KEYS=keys) as second:
                until(lambda: second.history("/api/v1/queue", space.ticket()).status_code == 200, "it has read all")
                assert second.history(live_runs.PATH, "").status_code == 503, "it does not lead"
            space.edit("mail", {"suspend": False})
            until(lambda: heard(operator).runs.get(uids["mail"]) == 1, "it goes on as the same attempt")
            operator.kill()
        with start(RUN_TOKEN_KEYS=keys) as operator:
            until(lambda: operator.history(live_runs.PATH, "").status_code == 200, "the next one leads")
            assert heard(operator).runs == dict.fromkeys(uids.values(), 1), "nothing of it is stored"
            assert (datetime.now(UTC) - heard(operator).as_of).total_seconds() < live_runs.SILENT_SECONDS
            space.delete("mail")
            until(lambda: heard(operator).runs == {uids["other"]: 1}, "it was deleted")
            assert heard(operator).stopped == frozenset()


def test_without_keys_there_is_no_list(start: Start) -> None:
    with start() as operator:
        assert operator.history(live_runs.PATH, "").status_code == 404
