"""`python -m kb`: the root of the process. Reads the settings once and serves, or says what is wrong with them.

What the service is made of is imported once the settings are right: it costs seconds, and a typing mistake none.
"""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable

import pydantic

from crds import errors
from kb import settings


def main() -> int:
    """Exit status: 0 after a signal, 2 when the settings or the data on disk cannot work."""
    try:
        config = settings.Settings()
    except pydantic.ValidationError as error:
        for problem in error.errors(include_url=False, include_input=False):
            name = "_".join(["JERVIS_KB", *(str(part).upper() for part in problem["loc"])])
            sys.stderr.write(f"{name}: {problem['msg']}\n")
        return 2
    import structlog
    import uvloop

    from kb.service import serving

    level = logging.getLevelNamesMapping()[config.log_level.upper()]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    if config.workers == 1:
        return _served(lambda: uvloop.run(serving.serve(config)))
    from kb.service import workers

    def serve(worker: workers.Worker) -> int:
        # Erasures wait for each of them, and name the one that is awaited.
        own = config.model_copy(update={"name": f"{config.name or socket.gethostname()}-{worker.number}"})
        return _served(lambda: uvloop.run(serving.serve(own, worker)))

    def run() -> int:
        return workers.run(config.host, config.port, config.workers, serve, grace=config.shutdown_seconds)

    return _served(run)


def _served(run: Callable[[], int | None]) -> int:
    status = 0
    try:
        status = run() or 0
    except* (errors.JervisError, OSError) as group:
        # A taken port, a disk that cannot be written, data of another version: a sentence says more than a traceback.
        sys.stderr.writelines(f"the knowledge base cannot start: {error}\n" for error in group.exceptions)
        status = 2
    return status


if __name__ == "__main__":
    sys.exit(main())
