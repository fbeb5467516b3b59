"""The fixtures of the knowledge base."""

from __future__ import annotations

from tests.kb.conftest import clock, database, fake, meters, router, simulator

__all__ = ["clock", "database", "fake", "meters", "router", "simulator"]
"""What the attacked processes stand on."""
