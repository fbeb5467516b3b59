"""Fixtures: a database of the test's own, and servers without TLS for all tests of this folder: a Dovecot, a Gitea."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.sources import dovecot, gitea, parts


@pytest.fixture(scope="session")
def mailserver() -> Iterator[dovecot.Dovecot]:
    """Without TLS."""
    with dovecot.running() as place:
        yield place


@pytest.fixture(scope="session")
def forge() -> Iterator[gitea.Gitea]:
    """Each test has repositories of its own there."""
    with gitea.running() as place:
        yield place


@pytest.fixture
async def database() -> AsyncIterator[Any]:
    """At MongoDB's wire, empty and gone afterwards."""
    async with parts.database() as empty:
        yield empty
