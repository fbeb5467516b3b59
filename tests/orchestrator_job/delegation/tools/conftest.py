"""The knowledge base's fixtures beside those of the Job."""

from __future__ import annotations

from tests.kb.conftest import clock, database, meters, router

__all__ = ["clock", "database", "meters", "router"]
