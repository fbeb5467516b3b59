"""`python -m orchestrator_job.transcribe`: transcribe one meeting.

Exit status: 0 the transcript (or why there is none) is handed over, 1 it is not, 2 the settings cannot be used, 3 the
attempt is over. A second run of the same attempt does the same again.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import httpx
import pydantic
import structlog
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from clients import tls_trust
from contracts.api import meeting
from crds import errors
from orchestrator_job.transcribe import calls, engine
from orchestrator_job.transcribe.errors import Unusable

log = structlog.get_logger("transcribe")
_PREFIX = "JERVIS_TRANSCRIBE_"


class Settings(BaseSettings):
    """`JERVIS_TRANSCRIBE_<FIELD>`; durations are in seconds."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, extra="ignore", frozen=True)

    url: Annotated[str, Field(pattern=r"^https?://[^/\s]+")]
    meeting: Annotated[str, Field(pattern=meeting.ID)]
    token_file: str
    engine: str = "faster-whisper"
    model: str = "/models/whisper"
    language: str = ""
    threads: Annotated[int, Field(ge=0, le=256)] = 0
    """Of the processor; 0: as many as the engine takes."""
    patience: Annotated[float, Field(ge=0)] = 300
    """How long a sources process that does not answer is asked again."""
    directory: str = tempfile.gettempdir()
    """Where the recording lies while it is read."""


def main() -> int:
    """Run to the end and return the exit status."""
    # One decoder of a stranger's file: what it opens goes no further than this process.
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        config = Settings()
    except pydantic.ValidationError as error:
        for one in error.errors(include_url=False, include_input=False, include_context=False):
            name = "_".join(str(part) for part in one["loc"]).upper()
            print(f"transcribe: setting {_PREFIX}{name}: {one['msg']}", file=sys.stderr)  # noqa: T201
        return 2
    timeout = httpx.Timeout(60.0, connect=5.0)
    with httpx.Client(verify=tls_trust.context(), timeout=timeout, trust_env=False) as http:
        way = calls.Calls(config.url, config.meeting, config.token_file, http, patience=config.patience)
        try:
            try:
                transcript = _transcribe(config, way)
            except Unusable as error:
                reason = f"{error.message} {error.remedy or ''}".strip()[:512]
                way.failed(meeting.Problem(reason=reason, permanent=error.field == "audio"))
                log.error("not transcribed", reason=reason)
                return 0
            way.heard(transcript)
        except calls.Over as error:
            log.info("attempt over", reason=error.message)
            return 3
        except errors.JervisError as error:
            log.error("not handed over", reason=error.message)
            return 1
    log.info("transcribed", engine=transcript.engine, segments=len(transcript.segments))
    return 0


def _transcribe(config: Settings, way: calls.Calls) -> meeting.Transcript:
    run = engine.named(config.engine, config.model, config.threads)
    number, name = tempfile.mkstemp(prefix="recording-", dir=config.directory)
    os.close(number)
    recording = Path(name)
    try:
        way.recording(recording)
        return run(recording, config.language)
    finally:
        recording.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
