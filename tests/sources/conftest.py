"""Fixtures: a Dovecot without TLS for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sources import dovecot


@pytest.fixture(scope="session")
def mailserver() -> Iterator[dovecot.Dovecot]:
    """Without TLS."""
    with dovecot.running() as place:
        yield place
