"""A default of the settings is that of what it bounds, which tests use without settings."""

from __future__ import annotations

from sources.core import assignments
from sources.settings import Settings


def test_of_claims() -> None:
    assert Settings(_env_file=None).claim_seconds == assignments.LASTS
