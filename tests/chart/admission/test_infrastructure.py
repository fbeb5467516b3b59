"""GpuBackends and Connections: who writes what was found out, and which hosts a URL may name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chart.admission import callers
from tests.chart.admission.callers import HOME, TEAM, Caller

pytestmark = pytest.mark.apiserver

FOUND = {"observedGeneration": 1, "leaderEpoch": 3}
MAKE = {
    "gpubackends": lambda: callers.backend("http://gpu-0.lab:11434"),
    "connections": lambda: callers.connection("https://git.example.com/x.git"),
}


@pytest.fixture(params=MAKE)
def thing(request: pytest.FixtureRequest, admin: Caller, operator: Caller) -> str:
    """`PLURAL/NAME` of one whose status the operator has written."""
    body = MAKE[request.param]()
    callers.succeed(admin.create(HOME, request.param, body))
    path = f"{request.param}/{body['metadata']['name']}"
    callers.succeed(operator.patch(HOME, f"{path}/status", {"status": FOUND}))
    return path


def test_our_processes_write_its_status(thing: str, operator: Caller, router: Caller) -> None:
    for caller in (operator, router):
        callers.succeed(caller.patch(HOME, f"{thing}/status", {"status": {"observedGeneration": 2}}))


def test_nobody_else_does(thing: str, tenant: Caller, admin: Caller) -> None:
    for caller, name in ((tenant, "tess"), (admin, "admin")):
        answer = caller.patch(HOME, f"{thing}/status", {"status": {"observedGeneration": 2}})
        message = callers.refusal(answer)
        assert f"jervis-operator and system:serviceaccount:{HOME}:jervis-router alone, not by {name}; change" in message
        assert answer.status_code == 403


def test_a_frozen_leader_does_not_either(thing: str, operator: Caller) -> None:
    answer = operator.patch(HOME, f"{thing}/status", {"status": {"leaderEpoch": 2}})
    assert "status.leaderEpoch: may not go down from 3 to 2" in callers.refusal(answer)


def test_its_spec_is_the_administrators(thing: str, admin: Caller) -> None:
    field = {"drain": True} if thing.startswith("gpubackends") else {"suspend": True}
    callers.succeed(admin.patch(HOME, thing, {"spec": field}))


@pytest.mark.parametrize(
    ("body", "host"),
    [
        (callers.backend("http://gpu-0.lab:11434"), ""),
        (callers.backend("http://GPU-0.lab:11434"), ""),
        (callers.backend("https://a.gpus.example.com"), ""),
        (callers.backend("http://own.lab:1"), ""),
        (callers.backend("http://gpu-1.lab:11434"), "gpu-1.lab"),
        (callers.backend("http://gpu-0.lab.evil.example:11434"), "gpu-0.lab.evil.example"),
        (callers.backend("http://evilgpus.example.com"), "evilgpus.example.com"),
        (callers.backend("http://gpus.example.com"), "gpus.example.com"),
        (callers.backend("http://127.0.0.1:11434"), "127.0.0.1"),
        (callers.connection("https://git.example.com/x.git"), ""),
        (callers.connection("ssh://git.example.com:22/x.git"), ""),
        (callers.connection("https://git.example.org/x.git"), "git.example.org"),
        (callers.connection("http://gpu-0.lab/x.git"), "gpu-0.lab"),
        (callers.connection("file:///etc/passwd"), ""),
        (callers.connection("FILE:///etc/passwd"), ""),
    ],
    ids=lambda value: value["spec"]["url"] if isinstance(value, dict) else value or "fine",
)  # fmt: skip
@pytest.mark.parametrize("namespace", [HOME, TEAM])
def test_hosts(body: dict[str, Any], host: str, namespace: str, tenant: Caller) -> None:
    plural = f"{body['kind'].lower()}s"
    answer = tenant.create(namespace, plural, body, dry=True)
    if body["spec"]["url"].lower().startswith("file:"):
        assert "spec.url: file:// is not allowed" in callers.refusal(answer)
        assert "connections.allowFileUrls" in callers.refusal(answer)
    elif host:
        assert f'spec.url: host "{host}" is not allowed; use one of ' in callers.refusal(answer)
    else:
        callers.succeed(answer)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("smtps://git.example.com", ""),
        ("smtp://GIT.example.com:587", ""),
        ("smtps://mail.example.org", "mail.example.org"),
        ("smtp://git.example.com.evil.example", "git.example.com.evil.example"),
    ],
)
def test_the_mail_server_of_a_connection_is_a_host_too(url: str, host: str, tenant: Caller) -> None:
    body = callers.connection("imaps://git.example.com")
    body["spec"] |= {"type": "Email", "secretRef": {"name": "mail"}, "smtp": {"url": url, "from": "team@example.com"}}
    answer = tenant.create(TEAM, "connections", body, dry=True)
    if host:
        assert f'spec.smtp.url: host "{host}" is not allowed; use one of ' in callers.refusal(answer)
    else:
        callers.succeed(answer)


def test_a_url_that_moves_is_looked_at_again(admin: Caller) -> None:
    body = callers.backend("http://gpu-0.lab:11434")
    path = f"gpubackends/{body['metadata']['name']}"
    callers.succeed(admin.create(HOME, "gpubackends", body))
    message = callers.refusal(admin.patch(HOME, path, {"spec": {"url": "http://elsewhere:11434"}}))
    assert 'host "elsewhere" is not allowed; use one of gpu-0.lab, *.gpus.example.com, or add it to' in message
    callers.succeed(admin.patch(HOME, path, {"spec": {"url": "http://b.gpus.example.com"}}))
