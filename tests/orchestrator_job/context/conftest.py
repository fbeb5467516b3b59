"""A task of its own."""

from tests.orchestrator_job.delegation.conftest import uid

__all__ = ["uid"]
