"""Which tools a run has, and how far they reach; `JERVIS_<FIELD>` for every field, lists as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic_settings import BaseSettings, SettingsConfigDict

from crds import values

_Pattern = Annotated[str, Field(min_length=1, max_length=320)]
_Patterns = Annotated[tuple[_Pattern, ...], Field(max_length=1000)]
_Connection = Annotated[str, Field(max_length=253, pattern=r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$")]


class Server(BaseModel):
    """A server of the Model Context Protocol (streamable HTTP). `clients` and `tools` are allow-lists, in which `*`
    stands for any text; `readOnly`: its tools change nothing outside, and calls need no approval."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
    url: Annotated[str, Field(pattern=r"^https?://[^/\s@]+(/\S*)?$", max_length=2000)]
    clients: _Patterns
    tools: _Patterns
    read_only: bool = False
    seconds: Annotated[float, Field(gt=0, le=600)] = 60.0


class Settings(BaseSettings):
    """A list of patterns that is empty allows all, but for `fetch_hosts`: without one, no page is fetched."""

    model_config = SettingsConfigDict(env_prefix="JERVIS_", extra="ignore", frozen=True)

    sources_url: Annotated[str, Field(pattern=r"^(https?://[^/\s]+.*)?$")] = ""
    """The sources process; empty: no repositories and no effects at Connections."""
    cluster_state_url: Annotated[str, Field(pattern=r"^(https?://[^/\s]+.*)?$")] = ""
    """The operator, where it shows the state of the task's namespace; empty: there is no such tool."""
    cluster_state_logs: bool = False
    """Whether it shows logs of the namespace, too."""
    work_dir: Path = Path("/tmp/jervis")  # noqa: S108  # an emptyDir of the run's own pod
    """Where repositories are cloned."""
    fetch_hosts: _Patterns = ()
    """Hosts whose pages may be fetched, as in `*.example.com`; `*`: any."""
    mail_recipients: _Patterns = ()
    """Addresses that mails may go to, as in `*@example.com`."""
    tracker_repositories: _Patterns = ()
    """CONNECTION/REPOSITORY (CONNECTION/ where a call names none) of issues, as in `team-issues/*`."""
    wiki_pages: _Patterns = ()
    """CONNECTION/PAGE of pages that may be edited."""
    push_branches: _Patterns = ()
    """CONNECTION/BRANCH that may be pushed, as in `storage-commits/jervis/*`."""
    mail_connection: _Connection = ""
    """The Connection that is used where a call names none; empty: a call names one."""
    tracker_connection: _Connection = ""
    wiki_connection: _Connection = ""
    git_connection: _Connection = ""
    ci_connection: _Connection = ""
    """Of checks; empty: `tracker_connection`."""
    clone_bytes: Annotated[int, Field(ge=1 << 20)] = 512 << 20
    """Largest clone with its files."""
    change_bytes: Annotated[int, Field(ge=1 << 10, le=12 << 20)] = 4 << 20
    """Largest bundle of a workspace's changes; they are kept in one document of MongoDB."""
    sandbox: bool = False
    """Whether the operator runs commands in Jobs of their own."""
    sandbox_images: tuple[Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")], ...] = ("python", "node", "go")
    """Roles of images that a command may run in."""
    sandbox_seconds: Annotated[int, Field(ge=1, le=3600)] = 600
    """Longest time of one command."""
    sandbox_memory: values.Quantity = "2Gi"
    vulnerabilities: Path | None = None
    """A file of OSV records (JSON, JSON lines, or a ZIP of JSON files); None: dependencies are listed, not judged."""
    mcp_servers: Annotated[tuple[Server, ...], Field(max_length=20)] = ()
