"""Which web pages may call a service."""

from __future__ import annotations

import pytest

from crds import browsers


@pytest.mark.parametrize(
    ("host", "good"),
    [
        (None, True),
        (b"localhost:11430", True),
        (b"127.0.0.1", True),
        (b"192.168.1.5:11430", True),
        (b"[::1]:11430", True),
        (b"[fe80::1]", True),
        (b"jervis-router", True),
        (b"Jervis-Router.jervis.svc:11430", True),
        (b"jervis-router.jervis.svc.cluster.local", True),
        (b"gpu.lan", True),
        (b"ollama.example.com", True),
        (b"deep.below.example.org:80", True),
        (b"evil.com", False),
        (b"evil.com.:11430", False),
        (b"localhost.evil.com", False),
        (b"127.0.0.1.nip.io", False),
        (b"example.org", False),
        (b"notexample.org", False),
    ],
)
def test_a_name_that_can_be_registered_is_none_of_a_service(host: bytes | None, good: bool) -> None:
    hosts = browsers.Hosts(["ollama.example.com", "*.example.org"])
    assert [hosts.allow(host), hosts.allow(host)] == [good, good]
    assert browsers.Hosts(["*"]).allow(host)


@pytest.mark.parametrize(
    ("origin", "host", "allowed"),
    [
        (None, "kb:8080", True),
        (None, "", True),
        ("http://kb:8080", "kb:8080", True),
        ("http://KB:8080", "kb:8080", True),
        ("https://agent.example.com", "kb:8080", True),
        ("https://Agent.example.com", "kb:8080", True),
        ("http://agent.example.com", "kb:8080", False),
        ("https://agent.example.com.evil.com", "kb:8080", False),
        ("https://agent.example.com:8443", "kb:8080", False),
        ("http://evil.com", "kb:8080", False),
        ("http://kb:8081", "kb:8080", False),
        ("null", "kb:8080", False),
        ("null", "", False),
        ("", "", False),
        ("http://kb:8080@evil.com", "kb:8080", False),
        ("file://", "", False),
    ],
)
def test_origins(origin: str | None, host: str, allowed: bool) -> None:
    assert browsers.Origins(["https://agent.example.com/"]).allow(origin, host) is allowed
    assert browsers.Origins(["https://agent.example.com/"]).lists(origin or "") is (
        (origin or "").lower() == "https://agent.example.com"
    )
