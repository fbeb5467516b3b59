"""One module per protocol: `(cursor) -> items | failures | next cursor`, see `controllers.sources.port`."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from datetime import datetime

from controllers.sources import limits, port
from controllers.sources.protocols import atlassian, confluence, gitea, github, gitlab, issues, jira, mailboxes
from crds import connection
from crds.connection import Type

Opens = Callable[[connection.Spec, Mapping[str, str], limits.Bucket], port.Source]


def table(
    *, plain: bool, tls: ssl.SSLContext, monotonic: Callable[[], float], wall: Callable[[], datetime]
) -> dict[Type, Opens]:
    """What opens a poll of each type. `plain` allows unencrypted servers."""
    at = atlassian.opened(tls, monotonic, wall)
    return {
        Type.EMAIL: mailboxes.opened(plain, tls, monotonic),
        Type.JIRA: jira.opened(at),
        Type.CONFLUENCE: confluence.opened(at),
        Type.GITHUB: issues.opened(github.GitHub, github.find, github.login, plain, tls, monotonic, wall),
        Type.GITLAB: issues.opened(gitlab.GitLab, gitlab.find, gitlab.login, plain, tls, monotonic, wall),
        Type.GITEA: issues.opened(gitea.Gitea, gitea.find, gitea.login, plain, tls, monotonic, wall),
    }
