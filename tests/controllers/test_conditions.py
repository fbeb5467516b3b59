"""What GpuBackends and Connections say about themselves."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx
import pytest

from controllers.connection import credentials
from controllers.connection import decide as connection_decide
from controllers.gpubackend import decide, probe
from crds import connection, gpubackend
from tests.controllers.build import NOW

MODELS: dict[str, Any] = {"modelSets": [{"name": "a", "models": [{"name": "qwen3-coder-tool:30b"}, {"name": "embed"}]}]}


def backend(status: dict[str, Any] | None = None, **spec: Any) -> gpubackend.GpuBackend:
    return gpubackend.GpuBackend.model_validate(
        {
            "metadata": {"name": "g", "uid": "u", "resourceVersion": "1", "generation": 1},
            "spec": {"url": "http://gpu:11434", **spec},
            "status": status or {},
        }
    )


def said(patch: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in patch["conditions"]}


def test_a_reachable_server_with_its_models_is_ready_and_then_nothing_is_written() -> None:
    answer = probe.Answer("0.17.4", frozenset({"qwen3-coder-tool:30b", "embed:latest", "other"}))
    first = decide.patch(backend(**MODELS), answer, NOW)
    assert said(first)["Ready"] == ("True", "Serving")
    assert first["version"] == "0.17.4"
    known = backend(first, **MODELS)
    assert decide.ready(known)
    assert decide.patch(known, answer, NOW + timedelta(hours=1)) == {}


def test_missing_models_are_named() -> None:
    patch = decide.patch(backend(**MODELS), probe.Answer("1", frozenset({"embed"})), NOW)
    assert said(patch)["Ready"] == ("False", "ModelsMissing")
    assert "qwen3-coder-tool:30b" in patch["conditions"][1]["message"]


def test_draining_is_not_ready() -> None:
    patch = decide.patch(backend(drain=True), probe.Answer("1", frozenset()), NOW)
    assert said(patch)["Ready"] == ("False", "Draining")


def test_an_unreachable_server_says_why_and_does_not_pretend_to_know_its_models() -> None:
    patch = decide.patch(backend(), probe.Failure("Unreachable", "refused"), NOW)
    assert said(patch) == {
        "Reachable": ("False", "Unreachable"),
        "ModelsLoaded": ("Unknown", "Unreachable"),
        "Ready": ("False", "Unreachable"),
    }


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://x", "InvalidURL"),
        ("http://", "InvalidURL"),
        ("http://[::1", "InvalidURL"),
        ("http://169.254.169.254/latest", "ForbiddenURL"),
        ("http://[fe80::1]:80", "ForbiddenURL"),
        ("http://metadata.google.internal.", "ForbiddenURL"),
        ("http://0.0.0.0:1", "ForbiddenURL"),
    ],
)
async def test_what_must_not_be_called_is_not_called(url: str, reason: str) -> None:
    def never(request: httpx.Request) -> httpx.Response:
        raise AssertionError(f"called {request.url}")

    async with httpx.AsyncClient(transport=httpx.MockTransport(never)) as http:
        found = await probe.ask(http, url)
    assert isinstance(found, probe.Failure)
    assert found.reason == reason


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        (lambda request: httpx.Response(200, json={"version": "1", "models": [{"name": "m"}]}), None),
        (lambda request: httpx.Response(500), "HTTPError"),
        (lambda request: httpx.Response(200, text="<html>"), "NotOllama"),
        (lambda request: httpx.Response(200, json=[1]), "NotOllama"),
        (lambda request: httpx.Response(200, json={"models": [{"nome": "m"}]}), "NotOllama"),
    ],
)
async def test_answers_of_all_kinds(handler: Any, reason: str | None) -> None:
    async with httpx.AsyncClient(transport=httpx.MockTransport(handler)) as http:
        found = await probe.ask(http, "http://gpu:1/")
    assert (found.reason if isinstance(found, probe.Failure) else None) == reason


def conn(status: dict[str, Any] | None = None, **spec: Any) -> connection.Connection:
    return connection.Connection.model_validate(
        {
            "metadata": {"name": "c", "uid": "u", "resourceVersion": "1", "generation": 2},
            "spec": {"type": "Jira", "clientId": "acme", "url": "https://jira.example.org", **spec},
            "status": status or {},
        }
    )


SECRET = {"secretRef": {"name": "s"}}
HAS_TOKEN = credentials.of_keys(conn(**SECRET).spec, ["token"])


@pytest.mark.parametrize(
    ("spec", "found", "reason"),
    [
        ({}, credentials.unneeded(conn().spec), "SecretRefMissing"),
        (SECRET, HAS_TOKEN, "PollingNotEnabled"),
        (SECRET, credentials.absent("s", "team"), "SecretNotFound"),
        (SECRET, credentials.of_keys(conn(**SECRET).spec, ["username"]), "SecretKeyMissing"),
        (SECRET, credentials.unreadable("s"), "PollingNotEnabled"),
        ({**SECRET, "suspend": True}, HAS_TOKEN, "Suspended"),
        ({**SECRET, "url": "imaps://mail"}, HAS_TOKEN, "InvalidURL"),
        ({**SECRET, "url": "https://"}, HAS_TOKEN, "InvalidURL"),
        (
            {"type": "Git", "url": "file:///srv/x.git"},
            credentials.unneeded(conn(type="Git").spec),
            "PollingNotEnabled",
        ),
    ],
)
def test_a_connection_is_honest(spec: dict[str, Any], found: credentials.Finding, reason: str) -> None:
    patch = connection_decide.patch(conn(**spec), found, NOW)
    assert said(patch)["Ready"] == ("False", reason)
    assert patch["observedGeneration"] == 2
    assert connection_decide.patch(conn(patch, **spec), found, NOW + timedelta(days=1)) == {}


@pytest.mark.parametrize(
    ("type_", "key", "keys", "reason"),
    [
        ("Email", "", ["username", "password"], "NotTried"),
        ("Email", "", ["token"], "SecretKeyMissing"),
        ("Jira", "", ["token"], "NotTried"),
        ("GitHub", "", ["password", "username"], "NotTried"),
        ("GitHub", "", ["password"], "SecretKeyMissing"),
        ("Git", "", ["ssh-privatekey"], "NotTried"),
        ("Git", "pat", ["pat"], "NotTried"),
        ("Git", "pat", ["token"], "SecretKeyMissing"),
        ("Jira", "", [], "SecretKeyMissing"),
    ],
)
def test_which_keys_a_type_needs(type_: str, key: str, keys: list[str], reason: str) -> None:
    known = conn(type=type_, secretRef={"name": "s", "key": key}).spec
    found = credentials.of_keys(known, keys)
    assert found.reason == reason
    assert found.ok is (None if reason == "NotTried" else False)
    if found.ok is False:
        assert "spec.secretRef" in found.message
