"""GpuBackends on a real apiserver: which of them count, whose word is believed, and what a blip costs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from aiohttp import web

from tests import httpserver
from tests.operator.conftest import Space, ready
from tests.operator.kubelet import Kubelet, never
from tests.operator.process import Start
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
CHAT = {"type": "UserInputProcessing", "mode": "Foreground"}
TOTAL = 'jervis_operator_gpu_slots{state="total"}'


class Ollama(httpserver.Server):
    """A server with a few models, behind a bearer token if it has one. `down`: it answers 503."""

    method = "GET"

    def __init__(self, *models: str) -> None:
        self.models, self.token, self.down, self.asked = models, "", False, 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        wanted = f"Bearer {self.token}" if self.token else None
        refused = wanted is not None and request.headers.get("Authorization") != wanted
        document = {"version": "0.0.1", "models": [{"name": name} for name in self.models]}
        return httpserver.reply(document, 503 if self.down else 401 if refused else 200)


@pytest.fixture
def ollama() -> Iterator[Ollama]:
    with Ollama("qwen2.5:7b").in_thread() as server:
        yield server


def told(space: Space, name: str = "gpu-0", type_: str = "Ready") -> tuple[str, str]:
    """Reason and message of a condition of a backend."""
    found = space.condition(name, type_, "gpubackends")
    return found["reason"], found["message"]


def going_without(space: Space) -> set[str]:
    """Tasks that run without a slot."""
    running = (one for one in space.every() if one.get("status", {}).get("phase") == "Orchestrating")
    return {one["metadata"]["name"] for one in running if not one["status"]["dispatch"].get("backend")}


def test_a_backend_of_another_namespace_offers_nothing_is_not_called_and_says_where_it_belongs(
    space: Space, start: Start, ollama: Ollama
) -> None:
    team = Space(space.api, f"t-{uuid.uuid4().hex[:8]}")
    with start([space.name, team.name]) as operator:
        team.create("gpubackends", "GpuBackend", "gpu-0", {"url": ollama.url, "numParallel": 64})
        until(lambda: told(team)[0] == "WrongNamespace", "it is told")
        assert f"kubectl apply -n {space.name}" in told(team)[1]
        assert ollama.asked == 0
        assert operator.metric(TOTAL) == 0
        space.backend(ollama.url, slots=2)
        until(lambda: operator.metric(TOTAL) == 2, "the release's own counts")
        assert operator.metric('jervis_operator_gpu_backends{ready="false"}') == 0, "the other one is no backend"
        team.delete("gpu-0", "gpubackends")
        space.edit("gpu-0", {"numParallel": 3}, "gpubackends")
        until(lambda: operator.metric(TOTAL) == 3, "one of the same name elsewhere takes nothing away")


def test_a_pattern_that_an_installed_model_fits_lets_background_work_run(
    space: Space, start: Start, ollama: Ollama
) -> None:
    sets = [{"name": "background", "models": [{"name": "qwen2.5:*"}]}]
    with Kubelet(space.api, space.name, never), start():
        space.create("gpubackends", "GpuBackend", "gpu-0", {"url": ollama.url, "modelSets": sets})
        until(lambda: ready(space.get("gpu-0", "gpubackends")), "it is Ready")
        space.bring("Orchestrating", "low")
        ollama.models = ("llama3:8b",)
        until(lambda: told(space)[0] == "ModelsMissing", "nothing fits any more")
        assert "No model of the server matches qwen2.5:*." in told(space)[1]


def test_a_server_behind_a_token_is_ready_once_its_secret_is_there(space: Space, start: Start, ollama: Ollama) -> None:
    ollama.token = "s3cret"  # a test's
    with start():
        space.create("gpubackends", "GpuBackend", "gpu-0", {"url": ollama.url})
        until(lambda: told(space)[0] == "Unauthorized", "it wants a token")
        assert "spec.secretRef" in told(space)[1]
        space.edit("gpu-0", {"secretRef": {"name": "gpu-token"}}, "gpubackends")
        until(lambda: told(space)[0] == "SecretNotFound", "the Secret is missed")
        assert space.name in told(space)[1]
        space.secret("gpu-token", other="x")
        until(lambda: told(space)[0] == "SecretKeyMissing", "its key is missed")
        space.secret("gpu-token", token="wrong")
        until(lambda: "refuses the token" in told(space)[1], "the token is the wrong one")
        space.secret("gpu-token", token="s3cret")  # a test's
        until(lambda: ready(space.get("gpu-0", "gpubackends")), "it is Ready")
        space.edit("gpu-0", {"secretRef": {"key": "bearer"}}, "gpubackends")
        until(lambda: "under key 'bearer'" in told(space)[1], "the other key is missed")
        space.secret("gpu-token", token="wrong", bearer="s3cret")
        until(lambda: ready(space.get("gpu-0", "gpubackends")), "it is Ready with the token under that key")
        assert "s3cret" not in str(space.get("gpu-0", "gpubackends")["status"])


@pytest.mark.parametrize("how", ["a failed probe", "drain"])
def test_a_gpu_that_stops_serving_starts_no_users_runs_and_then_a_bounded_number(
    space: Space, start: Start, ollama: Ollama, how: str
) -> None:
    with Kubelet(space.api, space.name, never), start(BACKEND_GONE_SECONDS=6) as operator:
        space.backend(ollama.url, slots=1)
        for number in range(6):
            space.submit(f"user-{number}", **CHAT)
        until(lambda: sorted(space.phases().values()) == ["Orchestrating", *["ReadyForGpu"] * 5], "one has the slot")
        first = next(name for name, phase in space.phases().items() if phase == "Orchestrating")
        if how == "drain":
            space.edit("gpu-0", {"drain": True}, "gpubackends")
        else:
            ollama.down = True
        until(lambda: not ready(space.get("gpu-0", "gpubackends")), "it does not serve")
        assert operator.metric(TOTAL) == 1, "it is expected back"
        assert operator.metric('jervis_operator_gpu_slots{state="free"}') == 0
        assert len(space.jobs()) == 1
        until(lambda: operator.metric(TOTAL) == 0, "it is not expected back any more")
        until(lambda: len(going_without(space)) == 2, "two go without a GPU")
        if how == "drain":
            assert space.phase(first) == "Orchestrating", "what runs there goes on"
        else:
            until(lambda: space.phase(first) == "ReadyForGpu", "what ran there waits")
        assert len(going_without(space)) == 2


def test_an_object_that_cannot_be_parsed_says_so_and_offers_nothing(space: Space, start: Start, ollama: Ollama) -> None:
    with start(BACKEND_GONE_SECONDS=1) as operator:
        space.backend(ollama.url, slots=2)
        until(lambda: operator.metric(TOTAL) == 2, "it offers its slots")
        holder = {"holder": "somebody", "until": "9999-12-31T00:00:00Z"}
        space.edit_status("gpu-0", {"reservation": holder}, "gpubackends")
        until(lambda: told(space)[0] == "Unreadable", "it says so")
        assert told(space)[1].startswith("Field: status.reservation.until. ")
        until(lambda: operator.metric(TOTAL) == 0, "its slots do not count")
        until(lambda: "Unreadable" in space.events("gpu-0"), "an Event says so, too")
        space.edit_status("gpu-0", {"reservation": None}, "gpubackends")
        until(lambda: ready(space.get("gpu-0", "gpubackends")), "it is Ready again")
        until(lambda: operator.metric(TOTAL) == 2, "and offers its slots")
