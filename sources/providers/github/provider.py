"""GitHub, as `providers.table` names it."""

from __future__ import annotations

from sources.providers.git_host.provider import GitHost
from sources.providers.github import address, checks, effects, reading

PROVIDER = GitHost(address.RULES, reading.GitHub, effects.DIALECT, checks.GitHub())
