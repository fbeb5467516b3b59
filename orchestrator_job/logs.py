"""Structured logs: one JSON object per line on stdout, with the task and its correlation id in every line."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


Fields = dict[str, object]


def configure(level: str) -> Fields:
    """Send structlog's and the libraries' records (theirs from warning on) to stdout. Call once, from the root.

    What is put into the returned mapping stands in every later line of the process, whichever task or thread logs it.
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
