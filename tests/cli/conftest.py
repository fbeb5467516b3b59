"""The command line against a real apiserver: each test in a namespace of its own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli import site

if TYPE_CHECKING:
    from kubernetes import client

_numbers = itertools.count(1)


@pytest.fixture
def place(kubeconfig: Path, custom_objects: client.CustomObjectsApi, monkeypatch: pytest.MonkeyPatch) -> site.Site:
    """A fresh namespace. Nothing of the caller's environment reaches the commands."""
    from kubernetes import client

    for name in ("KUBECONFIG", "JERVIS_CLIENT", "JERVIS_KB_URL", "JERVIS_KB_TOKEN", "JERVIS_ROUTER_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    core: Any = client.CoreV1Api(custom_objects.api_client)
    namespace = f"cli-{next(_numbers)}"
    core.create_namespace({"metadata": {"name": namespace}})
    return site.Site(kubeconfig, custom_objects, core, namespace)


@pytest.fixture
def call(place: site.Site, capsys: pytest.CaptureFixture[str]) -> site.Call:
    """The command in this process."""

    def called(*arguments: str, flags: Sequence[str] | None = None) -> site.Done:
        return site.call(capsys, *arguments, *(place.flags() if flags is None else flags))

    return called
