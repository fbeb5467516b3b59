"""Services of the release are reached through the proxy of the apiserver, with the rights of the caller."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from tests import endpoints
from tests.cli import outside, site
from tests.cli.test_acting import grant

pytestmark = pytest.mark.apiserver


@pytest.fixture
def store() -> Iterator[outside.Store]:
    """A knowledge base that the apiserver can reach."""
    with outside.Store().in_thread(host=site.own_address()) as server:
        yield server


@pytest.fixture
def minutes(tmp_path: Path) -> Path:
    file = tmp_path / "minutes.txt"
    file.write_text("č" * 20_000)
    return file


def test_a_large_file_needs_no_url(place: site.Site, call: site.Call, store: outside.Store, minutes: Path) -> None:
    place.expose("kb-write", store.port)
    call("submit", str(minutes), "--client", "acme", "--name", "minutes").succeeded()
    [(owner, media, body)] = store.kept
    assert (owner, media) == ({"clientId": "acme"}, "text/plain; charset=utf-8")
    assert body == minutes.read_bytes()
    assert place.get("minutes")["spec"]["contentRef"]["bytes"] == 40_000


def test_a_service_that_does_not_know_the_apiservers_name_is_called_by_its_own(
    place: site.Site, call: site.Call, store: outside.Store, minutes: Path
) -> None:
    """The apiserver passes on by which name it was called, as a public one of a cloud."""
    place.expose("kb-write", store.port)
    store.names = (f"release-kb-write.{place.namespace}.svc",)
    call("submit", str(minutes), "--client", "acme", "--name", "named").succeeded()
    assert len(store.kept) == 1
    assert store.called[1:] == list(store.names)
    store.names = ("another.name",)
    refused = call("submit", str(minutes), "--client", "acme", "--name", "other")
    assert refused.code != 0
    assert "is not called" in refused.err


def test_what_the_service_answers_is_said_as_it_is(
    place: site.Site, call: site.Call, store: outside.Store, minutes: Path
) -> None:
    place.expose("kb-write", store.port)
    flags = ["submit", str(minutes), "--client", "acme"]
    store.busy = True
    busy = call(*flags)
    assert (busy.code, busy.err.splitlines()[0]) == (75, "Error: MongoDB is away.")
    store.busy, store.token = False, "letmein"
    call(*flags).refused("wants a token")
    # A token would not arrive: the apiserver takes the header for itself.
    call(*flags, "--token", "letmein").refused(
        f"kubectl port-forward -n {place.namespace} svc/release-kb-write {store.port}",
        f"--kb http://127.0.0.1:{store.port}",
    )
    assert (store.kept, place.names()) == ([], [])


def test_a_service_that_is_not_there_or_not_allowed(
    place: site.Site, call: site.Call, store: outside.Store, minutes: Path
) -> None:
    flags = ["submit", str(minutes), "--client", "acme"]
    call(*flags).refused("app.kubernetes.io/component=kb-write", "  field: --kb\n")

    place.expose("kb-write", store.port)
    writer = place.user("writer")
    grant(place, "writer", "create")
    place.run(*flags, user=writer).refused(
        'cannot list resource "serviceaccounts"', "  field: --kb\n  remedy: Give the URL of the service with --kb."
    )
    rbac: Any = client.RbacAuthorizationV1Api(place.core.api_client)
    services = {"apiGroups": [""], "resources": ["services", "serviceaccounts"], "verbs": ["list"]}
    tasks = {"apiGroups": ["jervis.dev"], "resources": ["pendingtasks"], "verbs": ["create"]}
    rbac.patch_namespaced_role("writer", place.namespace, {"rules": [services, tasks]})
    place.run(*flags, user=writer).refused(
        "services/proxy", f"kubectl port-forward -n {place.namespace} svc/release-kb-write {store.port}"
    )

    endpoints.remove(place.core, place.namespace, "release-kb-write")
    call(*flags).refused("no endpoints available", code=75)
    assert (store.kept, place.names()) == ([], [])
