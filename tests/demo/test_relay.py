"""The way for the pods to an Ollama of the host, with a simulator as the Ollama and loopback as the cable."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from hack.cluster import layout, progress
from hack.demo import errors, relay, settings
from tests.fakes.ollama import process


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[layout.Layout]:
    place = dataclasses.replace(layout.of(tmp_path, "relaytest"), host="127.0.0.1")
    yield place
    relay.remove(place)


def wanted(tmp_path: Path, url: str, *, local: bool = True) -> settings.Settings:
    return settings.Settings(kubeconfig="", local=local, checkout=layout.CHECKOUT, state=tmp_path, ollama_url=url)


def test_requests_reach_the_ollama_behind_it(cluster: layout.Layout, tmp_path: Path) -> None:
    with process.running(models=["qwen2.5:7b"]) as fake:
        asked = wanted(tmp_path, fake.url.replace("127.0.0.1", "localhost"))
        relayed = relay.ensure(asked, cluster, progress.Progress())
        assert relayed.ollama_url == f"http://127.0.0.1:{relay.PORT}"
        listed = httpx.get(f"{relayed.ollama_url}/api/tags", verify=False).json()["models"]
        assert [model["name"] for model in listed] == ["qwen2.5:7b"]
    relay.remove(cluster)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{relayed.ollama_url}/api/tags", verify=False)


def test_an_ollama_that_is_not_there_is_said_with_the_remedy(cluster: layout.Layout, tmp_path: Path) -> None:
    with pytest.raises(errors.Failure, match=r"no Ollama answers there .* correct the URL"):
        relay.ensure(wanted(tmp_path, "http://localhost:9"), cluster, progress.Progress())


def test_a_cluster_of_ones_own_needs_none(cluster: layout.Layout, tmp_path: Path) -> None:
    asked = wanted(tmp_path, "http://localhost:9", local=False)
    assert relay.ensure(asked, cluster, progress.Progress()) is asked
