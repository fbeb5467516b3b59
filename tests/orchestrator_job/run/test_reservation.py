"""The GPU that a run announces itself for: at a real router, before its first model call and not for longer than it
works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from crds.priority import Priority
from orchestrator_job.run import reservation
from router import client
from tests import waiting
from tests.fakes.ollama import process as ollama
from tests.orchestrator_job import job
from tests.orchestrator_job.desk import Desk
from tests.router import process

MODEL = job.MODEL
ASK = [{"role": "user", "content": "?"}]


@dataclass
class Scene:
    """A router with one GPU, its backend, and the clients of one run."""

    fake: ollama.Fake
    router: process.Router
    http: httpx.AsyncClient

    def run(self, owner: str = "run-1", url: str = "", **more: Any) -> tuple[reservation.Reservation, client.Client]:
        """The reservation of a run and the client by which it asks models."""
        where = url or self.router.url
        kept = reservation.Reservation(client.Client(where, self.http), owner=owner, model=MODEL, **more)
        return kept, client.Client(where, self.http, before=kept.hold)

    async def owner(self) -> str | None:
        """Who has reserved the GPU."""
        held = (await self.router.backend("gpu"))["reservation"]
        return None if held is None else str(held["owner"])

    async def implicit(self) -> bool:
        """A reservation that came with a P0 request, or none."""
        return await self.owner() in (None, "P0")


@pytest.fixture(name="scene")
async def _scene(tmp_path: Path) -> AsyncIterator[Scene]:
    sets = process.model_set({"name": MODEL})
    with ollama.running(models=[MODEL], num_parallel=8) as fake, ollama.running(models=["small"]) as cpu:
        backends = [process.spec("gpu", fake.url, modelSets=sets), process.spec("cpu", cpu.url, kind="CPU")]
        async with (
            process.running(tmp_path, backends) as router,
            httpx.AsyncClient(verify=False) as http,
        ):
            yield Scene(fake, router, http)


async def test_it_is_announced_before_the_first_call_and_ends_with_the_run(scene: Scene) -> None:
    kept, asks = scene.run()
    await asks.chat(MODEL, ASK, Priority.P0)
    assert kept.held
    # The router loaded the model for the announcement, before the call came.
    assert [one["path"] for one in scene.fake.requests() if one["method"] == "POST"] == ["/api/generate", "/api/chat"]
    status = (await scene.router.backend("gpu"))["reservation"]
    assert (status["ready"], status["owner"]) == (True, "")  # no token is needed here: no names
    await kept.release()
    assert not kept.held
    assert (await scene.router.backend("gpu"))["reservation"] is None


async def test_a_run_announces_once_however_many_calls_it_makes(scene: Scene) -> None:
    kept, asks = scene.run()
    await asyncio.gather(*(asks.chat(MODEL, ASK, Priority.P0) for _ in range(5)))
    lease = kept._lease_id
    await asks.chat(MODEL, ASK, Priority.P0)
    assert lease
    assert kept._lease_id == lease
    await kept.release()
    await kept.release()  # again is no error


async def test_it_is_renewed_with_the_same_lease(scene: Scene) -> None:
    pauses: list[float] = []
    again: asyncio.Queue[None] = asyncio.Queue()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await again.get()

    answers: list[int] = []

    async def note(response: httpx.Response) -> None:
        if response.request.url.path.endswith("/announce"):
            answers.append(response.status_code)

    scene.http.event_hooks = {"response": [note]}
    kept, asks = scene.run(sleep=sleep)
    await asks.chat(MODEL, ASK, Priority.P0)
    first = kept._lease_id
    for number in (2, 3):
        again.put_nowait(None)
        await waiting.eventually(lambda number=number: len(pauses) == number)  # type: ignore[misc]
    assert answers == [200, 200, 200], "announced once, and renewed twice"
    assert kept._lease_id == first
    assert all(0 < pause <= reservation.RENEW_SECONDS for pause in pauses)
    await kept.release()


async def test_one_reservation_for_the_model_is_enough(scene: Scene) -> None:
    operator = client.Client(scene.router.url, scene.http)
    lease = (await operator.announce("operator", MODEL)).lease_id
    kept, asks = scene.run()
    await asks.chat(MODEL, ASK, Priority.P0)
    assert not kept.held
    await kept.release()
    assert await operator.release("operator", lease), "a run does not end the reservation of another owner"


async def test_where_one_backend_serves_all_nothing_is_announced(tmp_path: Path) -> None:
    sets = [{"name": f"set-{number}", "models": [{"name": name}]} for number, name in enumerate((MODEL, "small:1b"))]
    with ollama.running(models=[MODEL, "small:1b"]) as fake:
        spec = process.spec("gpu", fake.url, modelSets=sets, maxLoadedModels=1)
        async with process.running(tmp_path, [spec]) as router, httpx.AsyncClient(verify=False) as http:
            alone = Scene(fake, router, http)
            kept, asks = alone.run()
            for model in (MODEL, "small:1b", MODEL):
                assert await asks.chat(model, ASK, Priority.P0), "a reservation would keep the other set off"
            assert not kept.held
            await kept.release()


async def test_nothing_is_announced_after_the_end(scene: Scene) -> None:
    kept, asks = scene.run()
    await kept.release()
    await asks.chat(MODEL, ASK, Priority.P0)
    assert not kept.held
    assert await scene.implicit()


async def test_a_router_without_reservations_is_asked_all_the_same(scene: Scene) -> None:
    kept, asks = scene.run(url=scene.fake.url)  # an Ollama: it has no such paths
    assert await asks.chat(MODEL, ASK, Priority.P0)
    assert not kept.held
    await kept.release()


async def test_a_router_that_is_away_is_no_error_of_the_announcement(scene: Scene) -> None:
    kept, asks = scene.run(url="http://127.0.0.1:9")
    await kept.hold()
    with pytest.raises(client.Unavailable):
        await asks.chat(MODEL, ASK, Priority.P0)  # the call itself says so, and is retried as ever
    await kept.release()


@pytest.mark.services
class TestOfAWholeRun:
    """Announced and released by the program itself."""

    @pytest.fixture
    def placed(self, scene: Scene, desk: Desk) -> Desk:
        """A task whose runs ask models by the router of the scene."""
        desk.task.environment["JERVIS_ROUTER_URL"] = scene.router.url
        scene.fake.set_script({job.TAG: [job.reply()]})
        return desk

    async def test_a_run_reserves_a_gpu_and_gives_it_back(self, scene: Scene, placed: Desk) -> None:
        ended = await placed.ends("Answered")
        assert [one for one in ended.events() if "GPU is" in one] == ["a GPU is reserved", "the GPU is released"]
        assert await scene.owner() is None

    async def test_a_run_that_waits_for_a_person_holds_none(self, scene: Scene, placed: Desk) -> None:
        scene.fake.set_script({job.TAG: [job.reply(needsInput=True, questions=["Which router?"])]})
        ended = await placed.ends("NeedsInput")
        assert "the GPU is released" in ended.events()
        assert await scene.owner() is None

    async def test_a_run_that_is_asked_to_stop_gives_it_back(self, scene: Scene, placed: Desk) -> None:
        scene.fake.set_faults([{"match": {"tag": job.TAG}, "stall": {"afterBytes": 0, "gate": "never"}}])
        running = placed.task.start(JERVIS_DRAIN_GRACE_SECONDS="1")
        await running.logged("a GPU is reserved")
        running.process.terminate()
        ended = await placed.task.end(running)
        assert (ended.status, ended.message["exitReason"]) == (42, "Drained")
        assert "the GPU is released" in ended.events()
        assert await scene.owner() is None

    async def test_a_run_below_p0_reserves_none(self, placed: Desk) -> None:
        ended = await placed.ends("Answered", JERVIS_PRIORITY="1")
        assert not [one for one in ended.events() if "GPU is" in one]
