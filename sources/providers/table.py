"""What opens a poll of each type of Connection: `(cursor) -> items | failures | next cursor` (`core.port`)."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from datetime import datetime

from crds import connection
from crds.connection import Type
from sources.core import hosts, limits, port
from sources.providers.atlassian import sites as atlassian
from sources.providers.confluence import reading as confluence
from sources.providers.git_host import issues
from sources.providers.gitea import address as gitea_address
from sources.providers.gitea import reading as gitea
from sources.providers.github import address as github_address
from sources.providers.github import reading as github
from sources.providers.gitlab import address as gitlab_address
from sources.providers.gitlab import reading as gitlab
from sources.providers.jira import reading as jira
from sources.providers.mail import mailboxes

Opens = Callable[[connection.Spec, Mapping[str, str], limits.Bucket], port.Source]


def table(
    *,
    plain: bool,
    tls: ssl.SSLContext,
    monotonic: Callable[[], float],
    wall: Callable[[], datetime],
    reached: hosts.Hosts = hosts.LOCAL,
) -> dict[Type, Opens]:
    """What opens a poll of each type. `plain` allows unencrypted servers; `reached` says which hosts are called."""
    at = atlassian.opened(plain, tls, monotonic, wall, reached)
    of_issues = (plain, tls, monotonic, wall, reached)
    return {
        Type.EMAIL: mailboxes.opened(plain, tls, monotonic, reached),
        Type.JIRA: jira.opened(at),
        Type.CONFLUENCE: confluence.opened(at),
        Type.GITHUB: issues.opened(github.GitHub, github_address.RULES, *of_issues),
        Type.GITLAB: issues.opened(gitlab.GitLab, gitlab_address.RULES, *of_issues),
        Type.GITEA: issues.opened(gitea.Gitea, gitea_address.RULES, *of_issues),
    }
