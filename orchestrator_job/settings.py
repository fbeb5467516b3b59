"""The environment of the Job's pod, read once by `__main__`.

The operator sets the first group on every Job; the second has defaults that a chart may change.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from crds.pendingtask import Mode
from crds.priority import Priority

_Url = Annotated[str, Field(pattern=r"^https?://[^/\s]+")]
_Seconds = Annotated[float, Field(gt=0)]


class Reporting(BaseSettings):
    """Where the termination message goes: known before anything else, so that wrong settings can be reported too."""

    model_config = SettingsConfigDict(env_prefix="JERVIS_", extra="ignore")

    termination_log: Path = Path("/dev/termination-log")


class Settings(BaseSettings):
    """`JERVIS_<FIELD>` for every field below."""

    model_config = SettingsConfigDict(env_prefix="JERVIS_", extra="ignore", frozen=True)

    task_uid: Annotated[str, Field(min_length=1, max_length=63)]
    task_name: Annotated[str, Field(min_length=1)]
    task_namespace: Annotated[str, Field(min_length=1)]
    attempt: Annotated[int, Field(ge=0)]
    run_token_file: str = ""
    """Where the run's token for the knowledge base and the router is mounted; read before each call, because it may be
    renewed. Empty where neither asks for one."""
    kb_url: _Url
    router_url: _Url
    mongodb_uri: Annotated[str, Field(pattern=r"^mongodb(\+srv)?://", repr=False)]
    model: Annotated[str, Field(min_length=1)] = "qwen3-coder-tool:30b"
    priority: Priority = Priority.P0
    mode: Mode = Mode.FOREGROUND
    """Does a person wait for this run? The router counts only requests of those that one waits for as a user's."""

    traceparent: Annotated[str, Field(pattern=r"^(00-[0-9a-f]{32}-[0-9a-f]{16}-0[01])?$")] = ""
    """The task's trace, passed on to the knowledge base and the router; empty when it is not traced."""

    tracing: bool = False
    """Spans of a traced task's run, sent as the standard OTEL_ variables say; an untraced task's run has none."""

    database: Annotated[str, Field(min_length=1)] = "jervis"
    max_steps: Annotated[int, Field(ge=1, le=500)] = 500
    """Super-steps of the graph per process."""
    max_llm_calls: Annotated[int, Field(ge=1)] = 60
    """Model calls per round, processes that were killed included."""
    wall_clock_seconds: _Seconds = 3600
    """The Job's activeDeadlineSeconds, set by the operator. The process ends by itself `drain_grace_seconds` earlier,
    so that it can still say so; waiting while preempted does not count."""
    drain_grace_seconds: _Seconds = 10
    """From SIGTERM to cancelling the node in flight; must fit into the pod's terminationGracePeriodSeconds."""
    unavailable_seconds: Annotated[float, Field(ge=0)] = 120
    """How long one call insists on a service that is away before the run ends and the operator takes over."""
    max_evidence: Annotated[int, Field(ge=1, le=100)] = 10
    context_chars: Annotated[int, Field(ge=1000)] = 24_000
    """Upper bound of document and evidence text in one prompt."""
    num_ctx: Annotated[int, Field(ge=1024)] | None = None
    """Context window asked of the backend; None leaves it to the backend, so that the model is not reloaded."""
    log_level: Annotated[str, Field(pattern=r"^(debug|info|warning|error)$")] = "info"

    @property
    def working_seconds(self) -> float:
        """Time from the start of the process to its own deadline; at least half of a very short one."""
        return max(self.wall_clock_seconds - self.drain_grace_seconds, self.wall_clock_seconds / 2)
