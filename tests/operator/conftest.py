"""Fixtures: a namespace of one's own on the real apiserver, a knowledge base, MongoDB's wire, the operator."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pymongo
import pytest
from kubernetes import client

import kube
from tests import httpserver
from tests.conftest import api_client
from tests.operator import process
from tests.operator.knowledge import Knowledge
from tests.operator.kubelet import Work
from tests.waiting import until


class Space:
    """One namespace, and what tests do in it."""

    def __init__(self, api: Any, name: str, *, there: bool = False) -> None:
        """`there`: the namespace exists; otherwise it is created."""
        self.api, self.name = api, name
        self._objects: Any = client.CustomObjectsApi(api)
        self._core: Any = client.CoreV1Api(api)
        self.batch: Any = client.BatchV1Api(api)
        self.core: Any = self._core
        if there:
            return
        self._core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=name)))
        # Usually the controller manager's work; pods are refused without it.
        account = client.V1ServiceAccount(metadata=client.V1ObjectMeta(name="default"))
        self._core.create_namespaced_service_account(name, account)

    def submit(self, name: str, content: str = "ASK", **spec: Any) -> dict[str, Any]:
        """Create a task."""
        known = {"type": "EmailProcessing", "clientId": "acme", "content": content, **spec}
        return self.create("pendingtasks", "PendingTask", name, known)

    def bring(self, phase: str, name: str, content: str = "ASK", **spec: Any) -> dict[str, Any]:
        """Create a task, and return once it is in that phase."""
        made = self.submit(name, content, **spec)
        until(lambda: self.phase(name) == phase, f"{name} is in {phase}")
        return made

    def create(self, plural: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        """Create an object of ours."""
        body = {"apiVersion": "jervis.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        made: dict[str, Any] = self._objects.create_namespaced_custom_object(
            "jervis.dev", "v1alpha1", self.name, plural, body
        )
        return made

    def edit(self, name: str, spec: dict[str, Any], plural: str = "pendingtasks") -> None:
        """Merge into an object's spec."""
        self._objects.patch_namespaced_custom_object("jervis.dev", "v1alpha1", self.name, plural, name, {"spec": spec})

    def edit_status(self, name: str, status: dict[str, Any], plural: str = "pendingtasks") -> None:
        """Merge into an object's status, as only the operator may where the admission policies are."""
        self._objects.patch_namespaced_custom_object_status(
            "jervis.dev", "v1alpha1", self.name, plural, name, {"status": status}
        )

    def delete(self, name: str, plural: str = "pendingtasks") -> None:
        """Delete an object, its dependents in the background."""
        self._objects.delete_namespaced_custom_object("jervis.dev", "v1alpha1", self.name, plural, name)

    def conditions(self, name: str) -> dict[str, str]:
        """Reason of each condition of a task."""
        return {one["type"]: one["reason"] for one in self.status(name).get("conditions", ())}

    def condition(self, name: str, type_: str, plural: str = "pendingtasks") -> dict[str, str]:
        """Status, reason and message of a condition; empty while there is none."""
        listed = self.get(name, plural).get("status", {}).get("conditions", ())
        known: dict[str, str] = next((one for one in listed if one["type"] == type_), {})
        return {key: known.get(key, "") for key in ("status", "reason", "message")}

    def mark(self, name: str, metadata: dict[str, Any], plural: str = "pendingtasks") -> None:
        """Merge into an object's metadata."""
        self._objects.patch_namespaced_custom_object(
            "jervis.dev", "v1alpha1", self.name, plural, name, {"metadata": metadata}
        )

    def get(self, name: str, plural: str = "pendingtasks") -> dict[str, Any]:
        """One object."""
        found: dict[str, Any] = self._objects.get_namespaced_custom_object(
            "jervis.dev", "v1alpha1", self.name, plural, name
        )
        return found

    def every(self, plural: str = "pendingtasks") -> list[dict[str, Any]]:
        """All objects of a kind."""
        found = self._objects.list_namespaced_custom_object("jervis.dev", "v1alpha1", self.name, plural)
        items: list[dict[str, Any]] = found["items"]
        return items

    def phase(self, name: str) -> str:
        """Phase of a task; New while it has none."""
        return str(self.get(name).get("status", {}).get("phase", "New"))

    def status(self, name: str) -> dict[str, Any]:
        """Status of a task; empty until the operator has seen it."""
        found: dict[str, Any] = self.get(name).get("status", {})
        return found

    def phases(self) -> dict[str, str]:
        """Phase of every task by its name."""
        return {one["metadata"]["name"]: one.get("status", {}).get("phase", "New") for one in self.every()}

    def jobs(self) -> list[Any]:
        """All Jobs."""
        return list(self.batch.list_namespaced_job(self.name).items)

    def events(self, name: str) -> list[str]:
        """Reasons of the Events about an object, by resourceVersion of what they tell."""
        found = self._core.list_namespaced_event(self.name, field_selector=f"involvedObject.name={name}").items
        return [one.reason for one in sorted(found, key=lambda one: int(one.involved_object.resource_version))]

    def ticket(self, account: str = "jervis-history", audience: str = "history.jervis.dev") -> str:
        """A token of a ServiceAccount of this namespace, as `kubectl create token` makes one."""
        if account not in {one.metadata.name for one in self._core.list_namespaced_service_account(self.name).items}:
            made = client.V1ServiceAccount(metadata=client.V1ObjectMeta(name=account))
            self._core.create_namespaced_service_account(self.name, made)
        wanted = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[audience]))
        made = self._core.create_namespaced_service_account_token(account, self.name, wanted)
        return str(made.status.token)

    def secret(self, name: str, **values: str) -> None:
        """A Secret, or other values of one that is there."""
        if name in {one.metadata.name for one in self._core.list_namespaced_secret(self.name).items}:
            self._core.patch_namespaced_secret(name, self.name, {"stringData": values})
        else:
            self._core.create_namespaced_secret(self.name, {"metadata": {"name": name}, "stringData": values})

    def quota(self, counted: str, most: int) -> None:
        """A ResourceQuota named `most`, in force at once: its status is usually the controller manager's work."""
        hard = {f"count/{counted}": str(most)}
        self._core.create_namespaced_resource_quota(self.name, {"metadata": {"name": "most"}, "spec": {"hard": hard}})
        used = {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
        self._core.patch_namespaced_resource_quota_status("most", self.name, used)

    def backend(self, url: str, slots: int) -> None:
        """A GPU backend, and wait until it is Ready."""
        self.create("gpubackends", "GpuBackend", "gpu-0", {"url": url, "numParallel": slots})
        until(lambda: ready(self.get("gpu-0", "gpubackends")), "the backend is Ready")


def ready(raw: dict[str, Any]) -> bool:
    """Its Ready condition is True."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in raw.get("status", {}).get("conditions", ()))


def ollama() -> AbstractContextManager[httpserver.Recorder]:
    """A server without models, in a thread."""
    return httpserver.Recorder(httpserver.fixed({"version": "0.0.1", "models": []}), method="GET").in_thread()


@pytest.fixture
def gpu() -> Iterator[str]:
    with ollama() as server:
        yield server.url


SIGNING = "signing-" * 8
"""The key that signs runs' tokens."""


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A folder with that key."""
    folder = tmp_path / "keys"
    folder.mkdir()
    (folder / "signing").write_text(SIGNING)
    return folder


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
async def api(kubeconfig: Path) -> AsyncIterator[kube.Kube]:
    """A client like the operator's own."""
    loaded = kube.configuration(str(kubeconfig))
    async with kube.session(loaded) as session:
        yield kube.Kube(loaded, session, fence=lambda: None)


def database_name(space: Space) -> str:
    """One of its own for each namespace."""
    return f"test_{space.name.replace('-', '_')}"


@pytest.fixture
def space(kubeconfig: Path) -> Iterator[Space]:
    """A namespace; afterwards what operators have stored for it is dropped: each write costs the server a look at every
    collection that there is."""
    api = api_client(kubeconfig)
    namespace = Space(api, f"t-{uuid.uuid4().hex[:8]}")
    yield namespace
    api.close()
    if uri := os.environ.get("JERVIS_TEST_MONGODB_URI"):
        with pymongo.MongoClient[dict[str, Any]](uri) as server:
            server.drop_database(database_name(namespace))


@pytest.fixture
def knowledge() -> Iterator[Knowledge]:
    with Knowledge().in_thread() as server:
        yield server


@pytest.fixture
def mongodb_uri() -> str:
    uri = os.environ.get("JERVIS_TEST_MONGODB_URI")
    assert uri, "JERVIS_TEST_MONGODB_URI is not set; `python -m hack.cluster services-up`, or -m 'not services'"
    return uri


@pytest.fixture
def database(space: Space, mongodb_uri: str) -> Iterator[Any]:
    """The operator's MongoDB database, past the operator."""
    with pymongo.MongoClient[dict[str, Any]](mongodb_uri, tz_aware=True) as server:
        yield server[database_name(space)]


@pytest.fixture
def local(kubeconfig: Path, space: Space, knowledge: Knowledge, mongodb_uri: str) -> dict[str, Any]:
    """Settings of an operator in the process of the test (`unwatched`)."""
    return {
        "kubeconfig": str(kubeconfig),
        "kb_url": knowledge.url,
        "mongodb_uri": mongodb_uri,
        "mongodb_database": database_name(space),
    }


@pytest.fixture
def start(
    request: pytest.FixtureRequest,
    kubeconfig: Path,
    space: Space,
    knowledge: Knowledge,
    tmp_path: Path,
    mongodb_uri: str,
) -> process.Start:
    """Start an operator for this namespace, or for `namespaces` (none: all); settings can be overridden.

    `slots`: of a GPU backend that is Ready at the beginning of the block.
    """

    @contextmanager
    def begin(
        namespaces: Sequence[str] | None = None, *, slots: int = 0, **settings: object
    ) -> Iterator[process.Operator]:
        known: dict[str, object] = {
            "KUBECONFIG": kubeconfig,
            "NAMESPACE": space.name,
            "KB_URL": knowledge.url,
            "MONGODB_URI": mongodb_uri,
            "MONGODB_DATABASE": database_name(space),
            "IDLE_SECONDS": 0,
            "PROBE_SECONDS": 1,
            # Tests of the archive set their own; the others count writes.
            "ARCHIVE_SECONDS": 3600,
            **settings,
        }
        with process.running(tmp_path / "operator.log", namespaces, **known) as operator:
            if slots:
                space.backend(request.getfixturevalue("gpu"), slots)
            yield operator

    return begin
