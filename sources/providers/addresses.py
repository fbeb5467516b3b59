"""How the address of each type of Connection with a REST API is derived (`core.host_address`)."""

from __future__ import annotations

from collections.abc import Mapping

from crds.connection import Type
from sources.core.host_address import Rules
from sources.providers.atlassian import address as atlassian
from sources.providers.gitea import address as gitea
from sources.providers.github import address as github
from sources.providers.gitlab import address as gitlab

RULES: Mapping[Type, Rules] = {
    Type.JIRA: atlassian.RULES,
    Type.CONFLUENCE: atlassian.RULES,
    Type.GITHUB: github.RULES,
    Type.GITLAB: gitlab.RULES,
    Type.GITEA: gitea.RULES,
}
