"""What may be shown of an address, and which web pages may call a service."""

from __future__ import annotations

import pytest

from contracts import browsers
from crds import addresses


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://router:11430/api", "http://router:11430/api"),
        ("http://user:secret@router:11430", "http://router:11430"),
        ("mongodb://user:p@ss@one,two/db?x=a@b", "mongodb://one,two/db?x=a@b"),
        ("https://token@host/a@b", "https://host/a@b"),
        ("no address", "no address"),
    ],
)
def test_no_user_and_no_password(url: str, shown: str) -> None:
    assert addresses.shown(url) == shown


@pytest.mark.parametrize(
    ("path", "away"),
    [
        ("/api/v1/content/0b2f8a0e", False),
        ("/api/v1/content/a..b/...", False),
        ("/api/v1/content/a%2Fb", False),
        ("/apis/x/pods/p/log?container=../c#..", False),
        ("/api/v1/content/x/../../queue", True),
        ("/api/v1/content/..", True),
        ("/api/v1/content/./x", True),
        ("/api/v1/content/x%2F..%2F..%2Fmetrics", True),
        ("/api/v1/content/%2e%2E/x", True),
        ("/api/v1/content/%252e%252e/x", True),
        ("/api/v1/content/x\\..\\y", True),
        ("../x", True),
        (" ../x", True),
        ("a/.\n./x", True),
        ("a/.\t/x", True),
        ("a/\r../x", True),
        ("\x00../x", True),
        ("a/x\x7f", True),
        ("a/b c", True),
        ("a/b%20c", False),
        ("a/.%0a./x", True),
        ("a/.%250A./x", True),
        ("a/b%0ac", False),
        ("a/b?c=d e\n", False),
        ("/x/" + "a" * 9000, True),
        ("/x/%" + "25" * 6 + "41", True),
        ("/x/%" + "25" * 2 + "41", False),
    ],
)
def test_a_path_that_leads_away(path: str, away: bool) -> None:
    assert addresses.leads_away(path) is away


def test_a_segment_is_one_whatever_stands_in_it() -> None:
    assert addresses.path("api", "a/b?c=d#e", "ü %") == "/api/a%2Fb%3Fc=d%23e/%C3%BC%20%25".replace("=", "%3D")
    assert addresses.path("services", "http:x:80") == "/services/http:x:80"
    assert addresses.leads_away(addresses.path("content", "a/../../rules"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("64:ff9b:1::a9fe:a9fe", "metadata"),
        ("64:ff9b:1:a9fe:a9:fe00::", "metadata"),
        ("64:ff9b:1::7f00:1", "loopback"),
        ("2001:0:a9fe:a9fe::1", "metadata"),
        ("2001:0:505:505:0:0:5601:5601", "metadata"),
        ("::ffff:0:169.254.169.254", "metadata"),
        ("::ffff:0:127.0.0.1", "loopback"),
        ("64:ff9b::a9fe:a9fe", "metadata"),
        ("2002:a9fe:a9fe::", "metadata"),
        ("::ffff:169.254.169.254", "metadata"),
        ("64:ff9b:1::a00:1", ""),
        ("2a00:1450:4001::200e", ""),
        ("fd00::1", ""),
        ("10.0.0.1", ""),
    ],
)
def test_what_an_address_may_be_taken_for(text: str, why: str) -> None:
    said = addresses.never_called(text)
    assert (why in said) if why else said == ""


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
