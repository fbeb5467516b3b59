"""The environment of the Job's pod, read once by `__main__`.

The operator sets the first group on every Job; the second has defaults that a chart may change.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import AliasChoices, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from crds.pendingtask import MOST_STEPS, Mode
from crds.priority import Priority

_Url = Annotated[str, Field(pattern=r"^https?://[^/\s]+")]
_Seconds = Annotated[float, Field(gt=0)]


class Reporting(BaseSettings):
    """Path of the termination message: read first, so that wrong settings can be reported too."""

    model_config = SettingsConfigDict(env_prefix="JERVIS_", extra="ignore")

    termination_log: Path = Path("/dev/termination-log")


class Handover(BaseSettings):
    """Of a pod that was started before there was a task for it; without a URL the task is in the environment."""

    model_config = SettingsConfigDict(env_prefix="JERVIS_HANDOVER_", extra="ignore")

    url: str = ""
    """Where the operator answers."""
    token_file: str = ""
    """The token by which the pod shows which one it is."""
    keep: Path = Path("/var/run/jervis/token")
    """Where the run's own token is written to."""


def adopt(environment: Mapping[str, str], run_token_file: str) -> None:
    """Make the variables of a task that came later those of this process, as if its Job had been made for the task."""
    own = {name: value for name, value in environment.items() if name.startswith("JERVIS_")}
    os.environ.update({**own, "JERVIS_RUN_TOKEN_FILE": run_token_file})


class Settings(BaseSettings):
    """`JERVIS_<FIELD>` for every field below."""

    model_config = SettingsConfigDict(env_prefix="JERVIS_", extra="ignore", frozen=True, use_attribute_docstrings=True)

    task_uid: Annotated[str, Field(min_length=1, max_length=63)]
    task_name: Annotated[str, Field(min_length=1)]
    task_namespace: Annotated[str, Field(min_length=1)]
    attempt: Annotated[int, Field(ge=0)]
    run_token_file: str = ""
    """Path of the run's token for the knowledge base and the router; read before each call, because it may be renewed.
    Empty if neither requires a token."""
    kb_url: _Url
    router_url: _Url
    sources_url: str = ""
    """The sources process; empty: there are no repositories and trackers to work on (`effects.tools.settings`)."""
    mongodb_uri: Annotated[str, Field(pattern=r"^mongodb(\+srv)?://", repr=False)]
    model: Annotated[str, Field(min_length=1)] = "qwen3-coder:30b"
    planner_model: str = ""
    """The light model that plans Background runs; empty: they are not planned."""
    planner_num_ctx: Annotated[int, Field(ge=1024)] | None = None
    """Context window requested for it; None uses the backend's, and plans by one of 4096 tokens."""
    plan_seconds: _Seconds = 120
    """Time of the planning, in which its calls are retried; then the run goes on without a plan."""
    priority: Priority = Priority.P0
    mode: Mode = Mode.FOREGROUND
    """Foreground: a person waits for this run, and the router counts its requests as user activity."""

    traceparent: Annotated[str, Field(pattern=r"^(00-[0-9a-f]{32}-[0-9a-f]{16}-0[01])?$")] = ""
    """The task's trace, passed to the knowledge base and the router; empty when it is not traced."""

    tracing: bool = False
    """Record spans of a traced task's run; the standard OTEL_ variables configure the exporter."""
    otlp_endpoint: Annotated[
        str,
        Field(validation_alias=AliasChoices("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")),
    ] = ""
    """Where the exporter sends them, which reads it itself. Empty: no spans, in place of a try at localhost."""

    database: Annotated[str, Field(min_length=1)] = "jervis"
    release: str = ""
    """NAMESPACE/LEASE of the operator that started this run and counts its delegations; empty: none counts them."""
    max_steps: Annotated[int, Field(ge=1, le=MOST_STEPS)] = MOST_STEPS
    """Super-steps of the graph per task, all of its rounds and runs together."""
    max_llm_calls: Annotated[int, Field(ge=1)] = 60
    """Model calls per round, including those of killed processes."""
    max_delegations: Annotated[int, Field(ge=0, le=40)] = 40
    """Delegations per round, those of agents to agents included."""
    max_depth: Annotated[int, Field(ge=0, le=4)] = 4
    """Levels of delegation: at 1 the orchestrator delegates and agents do not, at 0 nothing is delegated."""
    delegations_at_once: Annotated[int, Field(ge=1, le=40)] = 4
    """Delegations of one group that run side by side."""
    use_delegation_graph: bool = False
    """Work by the delegation graph, in which agents plan and do parts of the work, instead of the graph that answers
    questions and does orders in steps."""
    use_specialist_agents: bool = False
    """Delegate to the specialist agents; without it one agent does everything, on both graphs."""
    use_dag_execution: bool = False
    """Work on delegations that do not depend on each other side by side."""
    use_procedural_memory: bool = False
    """Plan by procedures that earlier runs left, and leave new ones after a success."""
    use_decision_agent: bool = False
    """Have the decision agent of the knowledge base answer the questions of users (UserInputProcessing); orders are
    worked on as without it."""
    wall_clock_seconds: _Seconds = 3600
    """The Job's activeDeadlineSeconds, set by the operator. The process ends itself `drain_grace_seconds` earlier, so
    that it can still report; time while preempted does not count."""
    drain_grace_seconds: _Seconds = 10
    """From SIGTERM to cancelling the node in flight; must fit into the pod's terminationGracePeriodSeconds."""
    unavailable_seconds: Annotated[float, Field(ge=0)] = 120
    """How long one call is retried while its service is unavailable, before the run ends and the operator retries."""
    context_chars: Annotated[int, Field(ge=1000)] = 24_000
    """Upper bound of document and evidence text in one prompt; see `evidence_chars`."""
    num_ctx: Annotated[int, Field(ge=1024)] | None = None
    """Context window requested from the backend; None uses the backend's, so that the model is not reloaded."""
    log_level: Annotated[str, Field(pattern=r"^(debug|info|warning|error)$")] = "info"

    @property
    def plans(self) -> bool:
        """Whether this run makes a plan: a person who waits for an answer does not wait for a plan."""
        return bool(self.planner_model) and self.mode is Mode.BACKGROUND

    @property
    def evidence_chars(self) -> int:
        """`context_chars`, or fewer where the window is smaller: two for each of its tokens, as the answer needs room
        and a token has three bytes or more in most languages."""
        return self.context_chars if self.num_ctx is None else min(self.context_chars, 2 * self.num_ctx)

    @property
    def traces(self) -> bool:
        """Whether this run records spans."""
        return self.tracing and bool(self.traceparent) and bool(self.otlp_endpoint)

    @property
    def working_seconds(self) -> float:
        """Time from the start of the process to its own deadline; at least half of a very short one."""
        return max(self.wall_clock_seconds - self.drain_grace_seconds, self.wall_clock_seconds / 2)
