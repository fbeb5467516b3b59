"""What a Git host brings, from its own folder: one object a provider, which `providers.table` names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sources.ci import hosts as ci
from sources.core import host_address
from sources.providers.git_host import effects, git_host


@dataclass(frozen=True, slots=True)
class GitHost:
    """A Git host. `rules` derive its address and login, which reading, effects and checks share; `reading` makes what
    polls read issues by; `dialect` is how effects write them; `checks` reads the checks of commits."""

    rules: host_address.Rules
    reading: Callable[[], git_host.Host]
    dialect: effects.Dialect
    checks: ci.Host
