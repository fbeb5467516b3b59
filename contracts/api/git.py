"""How a request names a Git repository, a branch and a commit."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from contracts.api import message
from crds import urns

Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{7,64}$")]
_Name = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\s@]+$")]
BranchName = Annotated[str, StringConstraints(min_length=1, max_length=255, strip_whitespace=True)]


class Repository(message.Request):
    """A repository. `org` is its owner, or the path of its groups; "" where there is none.

    `urn` is how the sourceUrns of its commits begin, before `@` and the hash; without it `git::org/name`. `tracker`:
    whose issue a `#12` in a message is; without it such a number is not read.
    """

    org: Annotated[str, StringConstraints(max_length=255, pattern=r"^[^\s@]*$")] = ""
    name: _Name
    default_branch: str = Field(default="", max_length=255)
    urn: Annotated[str, StringConstraints(max_length=900, strip_whitespace=True)] = ""
    tracker: Literal["github", "gitlab", "gitea"] | None = None

    @property
    def path(self) -> str:
        """`org/name`."""
        return f"{self.org}/{self.name}" if self.org else self.name

    def source_urn(self, commit: str) -> str:
        """The sourceUrn of one of its commits."""
        return f"{self.urn}@{commit}" if self.urn else urns.commit(self.path, commit)

    def branch_urn(self, branch: str) -> str:
        """The sourceUrn of the structure of one of its branches."""
        return urns.branch(self.path, branch)

    def file_urn(self, path: str, branch: str) -> str:
        """The sourceUrn of a source file of a branch."""
        return urns.file(self.path, path, branch)
