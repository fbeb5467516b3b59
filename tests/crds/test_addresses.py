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
