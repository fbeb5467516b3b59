"""The owner of data: every read and write of the knowledge base has a Scope; there is no unscoped call.

Source: seed 001 "Multi-tenant Scoping (with Project Groups)":

    Global   client ""   project ""   group ""    visible everywhere
    Client   client X    project ""   group ""    visible to client X
    Group    client X    project ""   group G     visible to all projects in group G
    Project  client X    project Y    group G|""  visible to project Y (and, by its group, to the projects of G)
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

# The CRDs use the same pattern: an identifier becomes part of Weaviate tenants and ArangoDB collection names.
IDENTIFIER = r"^[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?$"
OPTIONAL_IDENTIFIER = r"^([A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?)?$"


class Scope(BaseModel):
    """Client, project and group of data or of a query; `""`: not bound to one."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    client_id: str = Field(pattern=OPTIONAL_IDENTIFIER)
    project_id: str = Field(default="", pattern=OPTIONAL_IDENTIFIER)
    group_id: str = Field(default="", pattern=OPTIONAL_IDENTIFIER)

    @model_validator(mode="after")
    def _nested(self) -> Scope:
        if not self.client_id and (self.project_id or self.group_id):
            raise ValueError("projectId and groupId need a clientId; leave all three empty for the global scope")
        return self

    @property
    def is_global(self) -> bool:
        """True for data that every client may see."""
        return not self.client_id

    def covers(self, owner: Scope) -> bool:
        """Whether erasing this scope deletes the data of `owner`.

        Erasing a client deletes all data of the client. Erasing a project deletes the project's own data, in any group.
        Erasing a group deletes the group's own data, not that of its projects. Erasing the global scope deletes the
        global data only.
        """
        if owner.client_id != self.client_id:
            return False
        if self.project_id:
            return owner.project_id == self.project_id
        if self.group_id:
            return not owner.project_id and owner.group_id == self.group_id
        return True


class Viewer(Scope):
    """A scope as a user sees it: `principals` are those of the one who asks (`crds.access`). A plain Scope sees all
    of it."""

    principals: tuple[str, ...]
