"""The demonstration on a real Ollama: what is missing is named before anything is installed, and pods have a way to
one of the host, with a simulator as the Ollama and loopback as the cable."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from hack.cluster import layout, progress
from hack.demo import errors, relay, roles, settings
from hack.models import catalogue
from tests.fakes.ollama import process


def wanted(url: str, **models: str) -> settings.Settings:
    return settings.read({"OLLAMA_URL": url, **models})


def test_what_is_missing_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    with process.running(models=["qwen3:8b", "qwen3-embedding:8b"]) as fake:
        with pytest.raises(errors.Failure, match=re.escape("(orchestrator, qualifier)")) as refused:
            roles.check(wanted(fake.url), progress.Progress())
        assert "no backend has qwen3-coder:30b" in str(refused.value)
        roles.check(wanted(fake.url, OLLAMA_MODEL="qwen3:8b"), progress.Progress())
        assert "vision (qwen3-vl:8b): Stops" in capfd.readouterr().err
        with pytest.raises(errors.Failure, match="embedding"):
            roles.check(wanted(fake.url, OLLAMA_MODEL="qwen3:8b", OLLAMA_EMBEDDING="absent"), progress.Progress())


def test_small_models_are_asked_for_by_their_own_names() -> None:
    names = [model.name for model in catalogue.SMALL]
    with process.running(models=names) as fake:
        chosen = dataclasses.replace(settings.read({"MODEL": "small"}), ollama_url=fake.url)
        roles.check(chosen, progress.Progress())
    with process.running(models=["qwen3:8b"]) as fake:
        chosen = dataclasses.replace(chosen, ollama_url=fake.url)
        with pytest.raises(errors.Failure, match=f"no backend has {names[0]}"):
            roles.check(chosen, progress.Progress())


def test_a_server_that_is_away_is_named() -> None:
    with pytest.raises(errors.Failure, match=r"No Ollama answers at http://127\.0\.0\.1:1"):
        roles.check(wanted("http://127.0.0.1:1"), progress.Progress())


def test_simulators_have_every_model() -> None:
    roles.check(settings.read({}), progress.Progress())


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[layout.Layout]:
    place = dataclasses.replace(layout.of(tmp_path, "relaytest"), host="127.0.0.1")
    yield place
    relay.remove(place)


def relayed_from(tmp_path: Path, url: str, *, local: bool = True) -> settings.Settings:
    return settings.Settings(kubeconfig="", local=local, checkout=layout.CHECKOUT, state=tmp_path, ollama_url=url)


def test_requests_reach_the_ollama_behind_it(cluster: layout.Layout, tmp_path: Path) -> None:
    with process.running(models=["qwen2.5:7b"]) as fake:
        asked = relayed_from(tmp_path, fake.url.replace("127.0.0.1", "localhost"))
        relayed = relay.ensure(asked, cluster, progress.Progress())
        assert relayed.ollama_url == f"http://127.0.0.1:{relay.PORT}"
        listed = httpx.get(f"{relayed.ollama_url}/api/tags", verify=False).json()["models"]
        assert [model["name"] for model in listed] == ["qwen2.5:7b"]
    relay.remove(cluster)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{relayed.ollama_url}/api/tags", verify=False)


def test_an_ollama_that_is_not_there_is_said_with_the_remedy(cluster: layout.Layout, tmp_path: Path) -> None:
    with pytest.raises(errors.Failure, match=r"no Ollama answers there .* correct the URL"):
        relay.ensure(relayed_from(tmp_path, "http://localhost:9"), cluster, progress.Progress())


def test_a_cluster_of_ones_own_needs_none(cluster: layout.Layout, tmp_path: Path) -> None:
    asked = relayed_from(tmp_path, "http://localhost:9", local=False)
    assert relay.ensure(asked, cluster, progress.Progress()) is asked
