"""The providers, by type of Connection: polls, effects, checks. A new Git host is a row of `GIT_HOSTS`.

Types that need what the process holds get it from `sources.__main__`: clones (Git) and stored meetings (Meeting).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from datetime import datetime

from crds.connection import Type
from sources.ci.hosts import CheckedHost
from sources.core import hosts
from sources.core.host_address import Rules
from sources.core.poller import Opens
from sources.effects import tools
from sources.providers.atlassian import address as atlassian_address
from sources.providers.atlassian import effects as atlassian_effects
from sources.providers.atlassian import sites as atlassian
from sources.providers.confluence import reading as confluence
from sources.providers.git import pushes
from sources.providers.git_host import effects as git_host_effects
from sources.providers.git_host import issues
from sources.providers.git_host.provider import GitHost
from sources.providers.gitea import provider as gitea
from sources.providers.github import provider as github
from sources.providers.gitlab import provider as gitlab
from sources.providers.jira import reading as jira
from sources.providers.mail import effects as mail_effects
from sources.providers.mail import mailboxes

GIT_HOSTS: Mapping[Type, GitHost] = {
    Type.GITHUB: github.PROVIDER,
    Type.GITLAB: gitlab.PROVIDER,
    Type.GITEA: gitea.PROVIDER,
}
RULES: Mapping[Type, Rules] = {
    Type.JIRA: atlassian_address.RULES,
    Type.CONFLUENCE: atlassian_address.RULES,
    **{kind: host.rules for kind, host in GIT_HOSTS.items()},
}
"""How the address of each type with a REST API is derived."""
CHECKS: Mapping[Type, CheckedHost] = {kind: CheckedHost(host.rules, host.checks) for kind, host in GIT_HOSTS.items()}
"""What reads the checks of commits."""


def table(
    *,
    plain: bool,
    tls: ssl.SSLContext,
    monotonic: Callable[[], float],
    wall: Callable[[], datetime],
    reached: hosts.Hosts = hosts.LOCAL,
) -> dict[Type, Opens]:
    """What opens a poll of each type. `plain` allows unencrypted servers; `reached` says which hosts are called."""
    site = atlassian.opened(plain, tls, monotonic, wall, reached)
    return {
        Type.EMAIL: mailboxes.opened(plain, tls, monotonic, reached),
        Type.JIRA: jira.opened(site),
        Type.CONFLUENCE: confluence.opened(site),
        **{
            kind: issues.opened(host.reading, host.rules, plain, tls, monotonic, wall, reached)
            for kind, host in GIT_HOSTS.items()
        },
    }


def effects(pushed: pushes.Pushes | None = None) -> dict[Type, tools.Opens]:
    """What opens the effects at Connections of each type. `pushed` are the pushes of a process that has clones."""
    return {
        Type.EMAIL: mail_effects.opens(),
        Type.JIRA: atlassian_effects.opened,
        Type.CONFLUENCE: atlassian_effects.opened,
        Type.GIT: pushes.effects(pushed),
        **{kind: git_host_effects.opened(host.dialect, host.rules) for kind, host in GIT_HOSTS.items()},
    }
