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


def test_a_large_file_needs_no_url(
    place: site.Site, capsys: pytest.CaptureFixture[str], store: outside.Store, minutes: Path
) -> None:
    place.expose("kb-write", store.port)
    done = site.call(capsys, "submit", str(minutes), "--client", "acme", "--name", "minutes", *place.flags())
    assert done.code == 0, done.err
    [(owner, media, body)] = store.kept
    assert (owner, media) == ({"clientId": "acme"}, "text/plain; charset=utf-8")
    assert body == minutes.read_bytes()
    assert place.get("minutes")["spec"]["contentRef"]["bytes"] == 40_000


def test_a_service_that_does_not_know_the_apiservers_name_is_called_by_its_own(
    place: site.Site, capsys: pytest.CaptureFixture[str], store: outside.Store, minutes: Path
) -> None:
    """The apiserver passes on by which name it was called, as a public one of a cloud."""
    place.expose("kb-write", store.port)
    store.names = (f"release-kb-write.{place.namespace}.svc",)
    done = site.call(capsys, "submit", str(minutes), "--client", "acme", "--name", "named", *place.flags())
    assert done.code == 0, done.err
    assert len(store.kept) == 1
    assert store.called[1:] == list(store.names)
    store.names = ("another.name",)
    refused = site.call(capsys, "submit", str(minutes), "--client", "acme", "--name", "other", *place.flags())
    assert refused.code != 0
    assert "is not called" in refused.err


def test_what_the_service_answers_is_said_as_it_is(
    place: site.Site, capsys: pytest.CaptureFixture[str], store: outside.Store, minutes: Path
) -> None:
    place.expose("kb-write", store.port)
    flags = ["submit", str(minutes), "--client", "acme", *place.flags()]
    store.busy = True
    busy = site.call(capsys, *flags)
    assert (busy.code, busy.err.splitlines()[0]) == (75, "Error: MongoDB is away.")
    store.busy, store.token = False, "letmein"
    unknown = site.call(capsys, *flags)
    assert (unknown.code, "wants a token" in unknown.err) == (1, True), unknown.err
    # A token would not arrive: the apiserver takes the header for itself.
    given = site.call(capsys, *flags, "--token", "letmein")
    assert given.code == 1
    assert f"kubectl port-forward -n {place.namespace} svc/release-kb-write {store.port}" in given.err
    assert f"--kb http://127.0.0.1:{store.port}" in given.err
    assert (store.kept, place.names()) == ([], [])


def test_a_service_that_is_not_there_or_not_allowed(
    place: site.Site, capsys: pytest.CaptureFixture[str], store: outside.Store, minutes: Path
) -> None:
    flags = ["submit", str(minutes), "--client", "acme"]
    absent = site.call(capsys, *flags, *place.flags())
    assert absent.code == 1
    assert "app.kubernetes.io/component=kb-write" in absent.err
    assert "  field: --kb\n" in absent.err

    place.expose("kb-write", store.port)
    writer = place.user("writer")
    grant(place, "writer", "create")
    unseen = place.run(*flags, user=writer)
    assert (unseen.code, 'cannot list resource "serviceaccounts"' in unseen.err) == (1, True), unseen.err
    assert "  field: --kb\n  remedy: Give the URL of the service with --kb." in unseen.err
    rbac: Any = client.RbacAuthorizationV1Api(place.core.api_client)
    services = {"apiGroups": [""], "resources": ["services", "serviceaccounts"], "verbs": ["list"]}
    tasks = {"apiGroups": ["jervis.dev"], "resources": ["pendingtasks"], "verbs": ["create"]}
    rbac.patch_namespaced_role("writer", place.namespace, {"rules": [services, tasks]})
    denied = place.run(*flags, user=writer)
    assert (denied.code, "services/proxy" in denied.err) == (1, True), denied.err
    assert f"kubectl port-forward -n {place.namespace} svc/release-kb-write {store.port}" in denied.err

    endpoints.remove(place.core, place.namespace, "release-kb-write")
    down = site.call(capsys, *flags, *place.flags())
    assert (down.code, "no endpoints available" in down.err) == (75, True), down.err
    assert (store.kept, place.names()) == ([], [])
