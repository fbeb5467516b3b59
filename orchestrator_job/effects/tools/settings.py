"""Which tools a run has, and how far they reach; `JERVIS_<FIELD>` for every field, lists as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from crds import tools, values


class Settings(BaseSettings, tools.Tools):
    """With what the operator adds to the chart's `job.tools`."""

    model_config = SettingsConfigDict(env_prefix="JERVIS_", extra="ignore", frozen=True)

    sources_url: Annotated[str, Field(pattern=r"^(https?://[^/\s]+.*)?$")] = ""
    """The sources process; empty: no repositories and no effects at Connections."""
    cluster_state_url: Annotated[str, Field(pattern=r"^(https?://[^/\s]+.*)?$")] = ""
    """The operator, where it shows the state of the task's namespace; empty: there is no such tool."""
    cluster_state_logs: bool = False
    """Whether it shows logs of the namespace, too."""
    work_dir: Path = Path("/tmp/jervis")  # noqa: S108  # an emptyDir of the run's own pod
    """Where repositories are cloned."""
    sandbox: bool = False
    """Whether the operator runs commands in Jobs of their own."""
    sandbox_images: tuple[Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")], ...] = ("python", "node", "go")
    """Roles of images that a command may run in."""
    sandbox_seconds: Annotated[int, Field(ge=1, le=3600)] = 600
    """Longest time of one command."""
    sandbox_memory: values.Quantity = "2Gi"
