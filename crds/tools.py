"""How far the tools of a run's agents reach: what the chart's `job.tools` says, as the operator checks it and the run
reads it (docs/tools.md)."""

from __future__ import annotations

import json
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel, to_snake

from crds import domains, patterns

_Pattern = Annotated[str, Field(min_length=1, max_length=320)]
_Patterns = Annotated[tuple[_Pattern, ...], Field(max_length=1000)]
_Connection = Annotated[str, Field(max_length=253, pattern=r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$")]


class Mode(StrEnum):
    """What a call of a tool of another server needs. The later one is the stricter."""

    READ = "read"
    """Nothing: it changes nothing outside, and takes nothing there that the server may not have (docs/effects.md)."""
    PERMIT = "permit"
    """A permit that names it, else a person."""
    ASK = "ask"
    """A person, whatever permits say."""


_STRICTEST = (Mode.ASK, Mode.PERMIT, Mode.READ)


class Server(BaseModel):
    """A server of the Model Context Protocol (streamable HTTP). `clients` and `tools` are allow-lists, in which `*`
    stands for any text."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True
    )

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
    """Its tools are called name.tool. No two servers have the same."""
    url: Annotated[str, Field(pattern=r"^https?://[^/\s@]+(/\S*)?$", max_length=2000)]
    """Without a user or password."""
    clients: _Patterns
    """Clients that it is offered to; * stands for any text."""
    tools: _Patterns
    """Its tools that may be called; * stands for any text."""
    modes: Annotated[dict[_Pattern, Mode], Field(max_length=1000)] = Field(default_factory=dict)
    """What a call needs, by names of tools, in which * stands for any text, as in {"get_*": read}: read (nothing: it
    changes nothing outside), permit (a permit that names it, else a person), ask (a person). The strictest that fits
    holds; of a tool that none fits, ask."""
    trust_read_only_hint: bool = False
    """A tool that no entry of modes fits, and of which the server itself says that it only reads (readOnlyHint), is
    read."""
    hosts: _Patterns = ()
    """Hosts that the arguments of its reading tools may name beside fetchHosts and the client's own, as in
    *.example.com; * for tools that call no host they are given."""
    seconds: Annotated[float, Field(gt=0, le=600)] = 60.0
    """Seconds of the longest call."""

    def mode(self, tool: str, *, hinted: bool) -> Mode:
        """Of the tool of this name; `hinted`: the server says that it only reads."""
        fitting = {mode for pattern, mode in self.modes.items() if patterns.matches(pattern, tool)}
        if not fitting:
            return Mode.READ if hinted and self.trust_read_only_hint else Mode.ASK
        return next(mode for mode in _STRICTEST if mode in fitting)

    def lets(self, host: str) -> bool:
        """Whether the arguments of its reading tools may name the host."""
        return any(patterns.matches(domains.hostname(pattern), domains.hostname(host)) for pattern in self.hosts)

    @property
    def reads(self) -> bool:
        """Whether any of its tools may be one that reads."""
        return self.trust_read_only_hint or Mode.READ in self.modes.values()


def _differ(servers: tuple[Server, ...]) -> tuple[Server, ...]:
    """Raises ValueError for two servers of one name: which of them a tool is of could not be told."""
    if twice := [name for name, times in Counter(one.name for one in servers).items() if times > 1]:
        raise ValueError(f"every name may occur once, and {', '.join(twice)} occurs again; name its tools in one entry")
    return servers


Servers = Annotated[tuple[Server, ...], AfterValidator(_differ), Field(max_length=20)]
"""Servers of different names."""


class Tools(BaseModel):
    """A list of patterns that is empty allows all, but for `fetch_hosts`: without one, no page is fetched."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    fetch_hosts: _Patterns = ()
    """Hosts whose pages may be fetched, as in *.example.com; empty: no page is fetched."""
    mail_recipients: _Patterns = ()
    """Addresses that mails may go to, as in *@example.com."""
    tracker_repositories: _Patterns = ()
    """CONNECTION/REPOSITORY of issues that may be changed, as in team-issues/*; CONNECTION/ where a call names no
    repository."""
    wiki_pages: _Patterns = ()
    """CONNECTION/PAGE of pages that may be edited."""
    push_branches: _Patterns = ()
    """CONNECTION/BRANCH that may be pushed, as in code/jervis/*."""
    mail_connection: _Connection = ""
    """The Connection of mails whose call names none."""
    tracker_connection: _Connection = ""
    """The Connection of issues whose call names none."""
    wiki_connection: _Connection = ""
    """The Connection of pages whose call names none."""
    git_connection: _Connection = ""
    """The Connection of repositories whose call names none."""
    ci_connection: _Connection = ""
    """The Connection of checks (CI) whose call names none; trackerConnection if left out."""
    clone_bytes: Annotated[int, Field(ge=1 << 20)] = 512 << 20
    """Largest clone of a run with its files, in bytes."""
    change_bytes: Annotated[int, Field(ge=1 << 10, le=12 << 20)] = 4 << 20
    """Largest bundle of what a run changed in a repository, in bytes; it is kept in one document of MongoDB."""
    vulnerabilities: Annotated[
        Path | None,
        BeforeValidator(lambda given: given or None),
        Field(json_schema_extra={"pattern": "^(/.*)?$"}),
    ] = None
    """Path of a file of OSV records (JSON, JSON lines, or a ZIP of JSON files) in the pod of a run, mounted by
    job.extraVolumes; empty: dependencies are listed and not judged."""
    mcp_servers: Servers = ()
    """Servers of the Model Context Protocol (streamable HTTP) whose tools agents may use; those that only read the
    knowledge base's decision agent, too."""

    def variables(self) -> dict[str, str]:
        """What differs from the defaults as variables of a run, `JERVIS_<FIELD>`; lists as JSON."""
        chosen = self.model_dump_json(exclude_defaults=True, by_alias=True)
        found: dict[str, Any] = json.loads(chosen)
        return {
            f"JERVIS_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
            for name, value in found.items()
        }


def _snake(given: Any) -> Any:
    return {to_snake(name): value for name, value in given.items()} if isinstance(given, dict) else given


Chosen = Annotated[Tools, BeforeValidator(_snake)]
"""With fields named as in the chart."""
