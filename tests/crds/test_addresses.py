"""What may be shown of an address."""

from __future__ import annotations

import pytest

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
