"""Which names an effect or a check may act on: those that the Connection reads, whatever an argument says.

`spec.url` and `spec.filter` name the repositories, projects and spaces (`core.host_address`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sources.api import problems
from sources.core.host_address import HostAddress


def choose(address: HostAddress, name: str, field: str) -> str:
    """The repository or project that an argument names, or the only one. Raises `problems.Invalid`."""
    if not name and len(address.names) == 1:
        return address.names[0]
    if not name or (address.names and name not in address.names):
        raise problems.Invalid(
            f"the Connection does not reach {name!r}" if name else "the Connection reaches several",
            field=f"arguments.{field}",
            remedy=_remedy(address),
        )
    return name


def admit(address: HostAddress, row: Mapping[str, Any], field: str) -> None:
    """Check a project or a space as its host describes it: key, id and name count, without case, as they do when it is
    read. What an argument names may have moved. Raises `problems.Invalid`."""
    names = {str(row[key]).casefold() for key in ("key", "id", "name") if row.get(key)}
    included, excluded = ({name.casefold() for name in listed} for listed in (address.names, address.excluded))
    if names & excluded or (included and not names & included):
        raise problems.Invalid(
            f"it is in {row.get('key')!r}, which the Connection does not reach",
            field=f"arguments.{field}",
            remedy=_remedy(address),
        )


def _remedy(address: HostAddress) -> str:
    return f"Name one of: {', '.join(address.names) or 'those that the Connection reads'}."
