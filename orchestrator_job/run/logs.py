"""Structured logs: one JSON object per line on stdout; every line has the task and its correlation id."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


Fields = dict[str, object]


def configure(level: str) -> Fields:
    """Send structlog's records, and those of libraries from warning on, to stdout. Call once, from the root.

    Every later line of the process contains the fields of the returned mapping, in all tasks and threads.
    """
    fields: Fields = {}

    def add(logger: object, name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return {**fields, **event}

    shared: list[structlog.typing.Processor] = [
        add,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stdout),
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    return fields
