"""Which hosts a text names."""

from __future__ import annotations

import pytest

from text import hosts


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("see www.evil.example", ["www.evil.example"]),
        ("evil.example/7713?x", ["evil.example"]),
        ("evil.example:443", ["evil.example"]),
        ("7713.evil.example", ["7713.evil.example"]),
        ("https://a:b@evil.example:8/x and http://[::1]:80/", ["evil.example", "::1"]),
        ("//evil.example/x", ["evil.example"]),
        ("https:evil.example", ["evil.example"]),
        (r"http:\\evil.example", ["evil.example"]),
        ("HTTP://EVIL", ["evil"]),
        ("ＷＷＷ．evil．example", ["www.evil.example"]),  # noqa: RUF001
        ("https://user@evil.example@good.example/", ["good.example"]),
        ("10.0.0.1:80/x", ["10.0.0.1"]),
        ("http://ex%61mple.com", ["ex%61mple.com"]),
        ("src/main.py main.py docs/index.test.ts", []),
        ("ann@example.com, v1.2.3, 3.14, e.g. this. Then. That", []),
        ("Prague", []),
    ],
)
def test_a_host_is_named_as_a_program_would_call_it(text: str, named: list[str]) -> None:
    assert list(hosts.named(text)) == named


def test_the_time_grows_with_the_length_alone() -> None:
    for text in ("a.", "a", "/", "//a", "http:", "www.", "-", "_", "a-", "1.1.1.1:1 "):
        list(hosts.named(text * (200_000 // len(text))))
