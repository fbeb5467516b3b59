"""What is offered as a merge, and what never is."""

from __future__ import annotations

import pytest

from kb.aliases import candidates


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("user:john.doe@example.com", "user:john doe"),
        ("user:john", "user:john.doe@example.com"),
        ("person:doe john", "person:john doe"),
        ("organization:globex corporation", "organization:globex corporatoin"),
        ("file:userservice.kt", "file:user_service.kt"),
    ],
)
def test_offered(one: str, other: str) -> None:
    assert candidates.likeness(one, other) >= candidates.LEAST
    assert candidates.likeness(one, other) == candidates.likeness(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("organization:ibm", "organization:ibn"),
        ("user:jon", "user:jan"),
        ("version:release 12", "version:release 13"),
        ("product:apple", "organization:apple"),
        ("user:john", "user:john"),
        ("person:ann meyer", "person:petr svoboda"),
    ],
)
def test_never_offered(one: str, other: str) -> None:
    assert candidates.likeness(one, other) < candidates.LEAST


def test_the_likest_first() -> None:
    others = ["user:john smith", "user:john", "user:doe john", "user:x"]
    assert [key for key, _ in candidates.rank("user:john doe", others, limit=2)] == ["user:doe john", "user:john"]
