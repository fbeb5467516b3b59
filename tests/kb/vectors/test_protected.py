"""A Weaviate that asks for an API key, as examples/data, clusters of others and the managed one do: a real server."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import httpx
import pytest
import yaml
from weaviate.classes.init import Auth

from hack.cluster import binaries, progress
from kb import errors
from kb.vectors import weaviate
from tests import ports, waiting
from tests.conftest import ROOT
from tests.kb import scopes
from tests.kb.vectors import contract

pytestmark = pytest.mark.services
KEY = "a-key-of-this-test"


def recipe() -> dict[str, str]:
    """The environment of the server in examples/data/weaviate.yaml; its Secret holds KEY."""
    documents = yaml.safe_load_all((ROOT / "examples" / "data" / "weaviate.yaml").read_text())
    [server] = [document for document in documents if document["kind"] == "StatefulSet"]
    [container] = server["spec"]["template"]["spec"]["containers"]
    return {entry["name"]: entry.get("value", KEY) for entry in container["env"]}


@pytest.fixture(scope="module")
def protected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """URL and gRPC port of a server that knows KEY alone."""
    folder = tmp_path_factory.mktemp("weaviate")
    port, grpc, gossip, data, raft, internal = (ports.free() for _ in range(6))
    program = binaries.program(binaries.WEAVIATE, "weaviate-server", progress.Progress())
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        **recipe(),
        "PERSISTENCE_DATA_PATH": str(folder / "data"),
        "CLUSTER_ADVERTISE_ADDR": "127.0.0.1",
        "CLUSTER_GOSSIP_BIND_PORT": str(gossip),
        "CLUSTER_DATA_BIND_PORT": str(data),
        "RAFT_PORT": str(raft),
        "RAFT_INTERNAL_RPC_PORT": str(internal),
        "GRPC_PORT": str(grpc),
        "GOMEMLIMIT": "256MiB",
        "DISK_USE_WARNING_PERCENTAGE": "98",
        "DISK_USE_READONLY_PERCENTAGE": "99",
        "LOG_LEVEL": "error",
    }
    log = folder / "log"
    with log.open("wb") as out:
        command = [str(program), "--host", "127.0.0.1", "--port", str(port), "--scheme", "http"]
        running = subprocess.Popen(command, env=environment, cwd=folder, stdout=out, stderr=out)
    try:
        ready = f"http://127.0.0.1:{port}/v1/.well-known/ready"
        waiting.served(lambda: httpx.get(ready, trust_env=False).status_code == 200, running, log, httpx.HTTPError)
        yield f"http://127.0.0.1:{port}", grpc
    finally:
        running.terminate()
        running.wait(waiting.PATIENCE)


async def test_with_its_key_everything_works(protected: tuple[str, int]) -> None:
    store = weaviate.Store(*protected, "a-model", api_key=KEY)
    try:
        await store.ready()
        made = contract.chunk(scopes.SHOP, "u:1", "one")
        await store.put(scopes.SHOP, [(made, contract.point(1))], [])
        [hit] = await store.dense(scopes.SHOP, contract.point(1), limit=5)
        assert hit.chunk_id == made.id
    finally:
        await store.close()


@pytest.mark.parametrize("key", ["", "another-key"])
async def test_without_it_the_store_is_away_and_says_which_setting_it_needs(
    protected: tuple[str, int], key: str
) -> None:
    store = weaviate.Store(*protected, "a-model", api_key=key)
    try:
        with pytest.raises(errors.Away, match="JERVIS_KB_WEAVIATE_API_KEY") as caught:
            await store.ready()
        assert "another-key" not in caught.value.message
        with pytest.raises(errors.Away, match="JERVIS_KB_WEAVIATE_API_KEY"):
            await store.dense(scopes.SHOP, contract.point(1), limit=5)
    finally:
        await store.close()


async def test_so_it_is_when_the_key_is_taken_back(protected: tuple[str, int]) -> None:
    """By gRPC as well: the connection is there already."""
    store = weaviate.Store(*protected, "a-model", api_key=KEY)
    try:
        await store.ready()
        store._client._connection._auth = Auth.api_key("another-key")
        store._client._connection._prepare_grpc_headers()
        with pytest.raises(errors.Away, match="JERVIS_KB_WEAVIATE_API_KEY"):
            await store.dense(scopes.SHOP, contract.point(1), limit=5)
    finally:
        await store.close()
