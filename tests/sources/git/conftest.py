"""Fixtures: a repository on a server of Git, and what reads it as the poller does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sources.git.making import Repository
from tests.sources.git.test_repository import Reading


@pytest.fixture
def made(tmp_path: Path) -> Repository:
    """Empty, at `acme/storage.git` below `srv`."""
    return Repository(tmp_path / "srv" / "acme" / "storage.git")


@pytest.fixture
def reader(made: Repository, tmp_path: Path) -> Reading:
    """It has not read anything of `made` yet."""
    return Reading(tmp_path / "ws", made.url)
