"""Who may ask, what may be asked, and how much: over an apiserver that answers by path."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from contracts.api import cluster_state
from contracts.tokens import runtoken
from controllers.clusterstate import hiding, http, reading
from tests import waiting
from tests.controllers.build import present
from tests.controllers.clusterstate.wire import NAMESPACE, OWN, POD, TEAM, Apiserver, Place, opened, token


@pytest.fixture
async def server() -> Apiserver:
    return Apiserver()


@pytest.fixture
async def place(server: Apiserver) -> AsyncIterator[Place]:
    async with server.client() as api, opened(api, logs=(NAMESPACE,)) as made:
        yield made


async def test_only_a_run_that_acts_for_its_whole_scope_is_answered(place: Place, server: Apiserver) -> None:
    old = tuple(one for one in runtoken.AUDIENCE if one != runtoken.OPERATOR)
    refused = [
        ("none", 401), ("a.b.c", 401), (token(audience=old), 401), (token(OWN), 403),
        (token(principals=("user:ann",)), 403), (token(repository="o/r"), 403), (token(sandbox=True), 403),
    ]  # fmt: skip
    for given, status in refused:
        for path in ("", "/logs/router-1"):
            answer = await place.ask(path, given)
            assert answer.status_code == status, (given, answer.text)
            assert answer.json()["error"]["field"] == "Authorization"
    assert server.asked == []
    assert place.counted() == {("state", "refused"): 7, ("log", "refused"): 7}
    assert (await place.ask()).status_code == 200
    # The namespace is the token's, and of no argument.
    assert {path.split("/namespaces/")[1].split("/")[0] for path, _ in server.asked} == {NAMESPACE}


async def test_the_release_s_own_namespace_is_shown_where_it_is_named(server: Apiserver) -> None:
    async with server.client() as api, opened(api, namespaces=(OWN,), logs=(reading.EVERYWHERE,)) as place:
        assert (await place.ask(given=token(OWN))).status_code == 200
        assert (await place.ask()).status_code == 403
        assert (await place.ask("/logs/x")).status_code == 403


@pytest.mark.parametrize(
    ("path", "query", "field"),
    [
        ("", {"parts": "pods,secrets"}, "parts"),
        ("", {"parts": "configmaps"}, "parts"),
        ("", {"limit": "0"}, "limit"),
        ("", {"limit": "101"}, "limit"),
        ("", {"name": "a/../b"}, "name"),
        ("", {"namespace": "team-b"}, "namespace"),
        ("/logs/router-1", {"lines": "501"}, "lines"),
        ("/logs/router-1", {"previous": "yes"}, "previous"),
        ("/logs/router-1", {"container": "../x"}, "container"),
        ("/logs/Router", {}, "pod"),
        ("/logs/..%2Fsecrets", {}, "pod"),
    ],
)
async def test_a_wrong_parameter_reaches_no_apiserver(
    place: Place, server: Apiserver, path: str, query: dict[str, str], field: str
) -> None:
    answer = await place.ask(path, **query)
    assert (answer.status_code, answer.json()["error"]["field"], server.asked) == (400, field, [])


async def test_what_is_read_and_shown_is_bounded(place: Place, server: Apiserver) -> None:
    pods = [{"metadata": {"name": f"router-{at:04}"}, "spec": {}} for at in range(reading.LOOKED_AT)]
    server.lists[f"{TEAM}/pods"], server.left = pods, 70
    server.lists[f"{TEAM}/events"] = [{"metadata": {"name": f"e{at}"}} for at in range(2300)]
    found = cluster_state.State.model_validate((await place.ask(parts="pods,events", limit="100")).json())
    assert found.events is not None
    assert (len(present(found.pods).items), present(found.pods).left_out) == (100, 400 + 70)
    assert present(found.pods).unread == "only 500 pods were looked at"
    asked = [path.rpartition("/")[2] for path, _ in server.asked]
    assert (asked.count("pods"), asked.count("events")) == (5, 20)
    assert {query["limit"] for _, query in server.asked} == {"100"}
    assert (found.events.left_out, found.events.unread) == (1900 + 370, "only 2000 events were looked at")
    named = cluster_state.State.model_validate((await place.ask(parts="pods", name="r-000")).json())
    assert named.pods is not None
    # Of those that were not looked at it is not known which have the name.
    assert ([one.name for one in named.pods.items][:2], named.pods.left_out) == (["router-0000", "router-0001"], 0)
    assert named.workloads is None


async def test_objects_of_any_size_are_read_within_a_number_of_bytes(place: Place, server: Apiserver) -> None:
    long = {"annotations": {"note": "x" * (256 << 10)}}
    jobs = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
    server.lists[jobs] = [{"metadata": {"name": f"j{at:03}", **long}, "spec": {}} for at in range(60)]
    found = cluster_state.State.model_validate((await place.ask(parts="workloads", limit="100")).json())
    assert (len(present(found.workloads).items), present(found.workloads).unread) == (60, "")
    sizes = [int(query["limit"]) for path, query in server.asked if path == jobs]
    assert sizes == [100, 25, *[6] * 10]
    # What is kept is bounded besides, and how often is asked.
    server.lists[jobs] = [
        {"metadata": {"name": f"j{at:03}"}, "status": {"conditions": [{"message": "x" * (400 << 10)}]}}
        for at in range(60)
    ]  # fmt: skip
    server.asked.clear()
    found = cluster_state.State.model_validate((await place.ask(parts="workloads", limit="100")).json())
    assert (present(found.workloads).unread, present(found.workloads).left_out) == ("only 11 jobs were looked at", 49)
    server.lists[jobs] = [{"metadata": {"name": "j"}, "spec": {"x": "x" * (3 << 20)}}]
    found = cluster_state.State.model_validate((await place.ask(parts="workloads", limit="100")).json())
    assert (present(found.workloads).unread, present(found.workloads).items) == ("only 0 jobs were looked at", ())


async def test_kinds_are_read_one_after_another(place: Place, server: Apiserver) -> None:
    server.open.clear()
    asked = asyncio.create_task(place.ask(parts=",".join(cluster_state.Part)))
    await waiting.eventually(lambda: server.asked, "the server is asked")
    await asyncio.sleep(0.5)
    assert [path for path, _ in server.asked] == [f"{TEAM}/pods"]
    server.open.set()
    assert (await asked).status_code == 200


async def test_a_message_is_shown_where_what_it_may_quote_is_known(place: Place, server: Apiserver) -> None:
    def event(kind: str, name: str, uid: str = "") -> dict[str, object]:
        about = {"kind": kind, "name": name, **({"uid": uid} if uid else {})}
        return {"metadata": {"name": "e"}, "involvedObject": about, "message": "ran value-of-key"}

    server.lists[f"{TEAM}/pods"] = [{**POD, "metadata": {"name": "router-1", "uid": "u1"}}]
    deployments = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
    server.lists[deployments] = [{"metadata": {"name": "router", "uid": "u2"}, "spec": {}}]
    server.lists[f"{TEAM}/events"] = [
        event("Pod", "router-1"), event("Pod", "router-1", "u1"), event("Deployment", "router", "u2"),
        event("ReplicaSet", "router-5d9c"), event("PersistentVolumeClaim", "data"),
        event("Pod", "router-1", "u0"), event("Pod", "gone"), event("Job", "gone"), event("ReplicaSet", "gone-5d9c"),
        event("Rollout", "router"),
    ]  # fmt: skip
    found = cluster_state.State.model_validate((await place.ask(parts="events")).json())
    assert [one.message for one in present(found.events).items] == ["ran ***"] * 5 + [""] * 5
    said = "messages of 5 events are not shown: the specifications of their objects were not read"
    assert present(found.events).unread == said


async def test_where_too_much_is_to_be_hidden_no_message_is_shown(place: Place, server: Apiserver) -> None:
    env = [{"name": "A", "value": f"value-{at}"} for at in range(hiding.MOST_VALUES + 1)]
    pod = {"metadata": {"name": "router-1"}, "spec": {"containers": [{"name": "router", "env": env}]}}
    server.lists[f"{TEAM}/pods"] = [{**pod, "status": {"phase": "Failed", "message": "ran value-7"}}]
    found = cluster_state.State.model_validate((await place.ask(parts="pods")).json())
    assert (present(found.pods).items[0].phase, present(found.pods).items[0].message) == ("Failed", "")
    assert present(found.pods).unread == (
        "messages are not shown: specifications hold too many values that would be hidden in them"
    )
    assert (await place.ask("/logs/router-1")).status_code == 404


async def test_one_namespace_leaves_a_place_to_another(place: Place, server: Apiserver) -> None:
    server.open.clear()
    asked = [asyncio.create_task(place.ask(parts="quotas")) for _ in range(http.AT_ONCE)]
    done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    assert [one.result().status_code for one in done] == [429]
    other = asyncio.create_task(place.ask(given=token("team-b"), parts="quotas"))
    await asyncio.sleep(0.2)
    assert not other.done()
    server.open.set()
    statuses = [one.status_code for one in await asyncio.gather(*asked, other)]
    assert (sorted(statuses[:-1]), statuses[-1]) == ([200, 200, 200, 429], 200)


async def test_a_request_ends_though_the_apiserver_does_not_answer(server: Apiserver) -> None:
    async with server.client() as api, opened(api, seconds=0.1) as place:
        server.open.clear()
        answer = await place.ask()
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        server.open.set()
        async with opened(api) as patient:
            assert (await patient.ask()).status_code == 200


async def test_a_right_that_is_missing_leaves_out_its_part_alone(place: Place, server: Apiserver) -> None:
    server.refuses[f"{TEAM}/events"] = 403
    server.refuses[f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"] = 403
    server.lists[f"{TEAM}/services"] = [{"metadata": {"name": "router"}, "spec": {"ports": [{"port": 80}]}}]
    found = cluster_state.State.model_validate((await place.ask(parts="pods,events,services")).json())
    assert [one.name for one in present(found.pods).items] == ["router-1"]
    assert present(found.events).unread.startswith("events: GET ")
    assert (present(found.services).items[0].ready, present(found.services).items[0].ports) == (None, ("80/TCP",))
    server.refuses[f"{TEAM}/pods"] = 503
    away = await place.ask()
    assert (away.status_code, away.headers["Retry-After"]) == (503, "5")


async def test_the_end_of_a_log_is_shown_without_what_is_hidden(place: Place, server: Apiserver) -> None:
    server.log = [*(f"line {at}" for at in range(1000)), "uses value-of-key", "password=hunter2"]
    answer = await place.ask("/logs/router-1", container="router", previous="true", lines="4")
    assert answer.json() == {
        "namespace": NAMESPACE, "pod": "router-1", "container": "router", "previous": True, "cut": False,
        "text": "line 998\nline 999\nuses ***\npassword=***\n",
    }  # fmt: skip
    [(_, query)] = [one for one in server.asked if one[0].endswith("/log")]
    assert (query["previous"], query["container"], query["tailLines"]) == ("true", "router", "4")
    assert place.counted() == {("log", "ok"): 1}


async def test_a_log_of_long_lines_ends_where_it_ends(place: Place, server: Apiserver) -> None:
    server.log = [f"{at} {'x' * 3000}" for at in range(200)]
    shown = cluster_state.Log.model_validate((await place.ask("/logs/router-1", lines="200")).json())
    assert shown.cut
    assert len(shown.text) == cluster_state.LOG_CHARS
    assert shown.text.rstrip().rpartition("\n")[2].startswith("199 ")
    sizes = [query["tailLines"] for path, query in server.asked if path.endswith("/log")]
    assert sizes == ["200", "50"]


async def test_there_are_logs_only_where_the_namespace_allows_them(server: Apiserver) -> None:
    async with server.client() as api, opened(api, logs=("team-b",)) as place:
        answer = await place.ask("/logs/router-1")
        assert (answer.status_code, server.asked) == (403, [])
        assert "logNamespaces" in answer.json()["error"]["remedy"]


@pytest.mark.parametrize(
    ("status", "answered", "code"),
    [(400, 404, "not_found"), (404, 404, "not_found"), (403, 403, "forbidden"), (500, 503, "unavailable")],
)
async def test_a_log_that_there_is_not_is_said(
    place: Place, server: Apiserver, status: int, answered: int, code: str
) -> None:
    server.refuses[f"{TEAM}/pods/router-1/log"] = status
    answer = await place.ask("/logs/router-1")
    assert (answer.status_code, answer.json()["error"]["code"]) == (answered, code)


async def test_the_runs_of_a_namespace_have_a_rate(place: Place, server: Apiserver) -> None:
    statuses = [(await place.ask(parts="quotas")).status_code for _ in range(http.REQUESTS_AT_ONCE + 2)]
    assert statuses == [200] * http.REQUESTS_AT_ONCE + [429, 429]
    assert (await place.ask(given=token("team-b"), parts="quotas")).status_code == 200
    place.clock += 1.0
    assert (await place.ask(parts="quotas")).status_code == 200
