"""Domains of a client's own."""

from __future__ import annotations

import pytest

from crds import domains


@pytest.mark.parametrize(
    ("named", "host", "inside"),
    [
        ("example.com", "example.com", True),
        ("example.com", "Example.COM.", True),
        ("example.com", "www.example.com", False),
        ("example.com", "badexample.com", False),
        ("example.com", "example.com.evil.example", False),
        ("*.example.com", "www.example.com", True),
        ("*.example.com", "a.b.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", "badexample.com", False),
        ("bücher.example", "xn--bcher-kva.example", True),
        ("xn--bcher-kva.example", "BÜCHER.example", True),
        # IDNA 2003 would make it the name of another one.
        ("faß.example", "fass.example", False),
        ("example.com", "exаmple.com", False),  # noqa: RUF001 -- a letter of another script
        ("example.com", "", False),
        ("example.com", "ex\u0000ample.com", False),
        ("example.com", "[10.0.0.1]", False),
    ],
)
def test_a_host_is_inside_where_its_domain_is_named(named: str, host: str, inside: bool) -> None:
    assert domains.contains([named], host) is inside
    assert domains.Internal((named,)).has(host) is inside


def test_nothing_is_inside_of_nothing() -> None:
    assert not domains.NOTHING.has("example.com")
    assert domains.Internal(hosts=frozenset({"git.example.com"})).has("git.example.com")
    assert not domains.Internal(hosts=frozenset({"git.example.com"})).has("example.com")
