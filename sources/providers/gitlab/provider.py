"""GitLab, as `providers.table` names it."""

from __future__ import annotations

from sources.providers.git_host.provider import GitHost
from sources.providers.gitlab import address, checks, effects, reading

PROVIDER = GitHost(address.RULES, reading.GitLab, effects.DIALECT, checks.GitLab())
