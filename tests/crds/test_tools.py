"""How far tools reach: modes of tools of other servers, and servers of one name."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from crds import tools
from kb import settings as kb_settings

ENTRY = {"name": "x", "url": "http://x/mcp", "clients": ["acme"], "tools": ["*"]}


@pytest.mark.parametrize(
    ("more", "tool", "hinted", "mode"),
    [
        ({}, "create_task", False, "ask"),
        ({}, "create_task", True, "ask"),
        ({"trustReadOnlyHint": True}, "get_task", True, "read"),
        ({"trustReadOnlyHint": True}, "create_task", False, "ask"),
        ({"trustReadOnlyHint": True, "modes": {"get_*": "ask"}}, "get_task", True, "ask"),
        ({"modes": {"get_*": "read"}}, "get_task", False, "read"),
        ({"modes": {"get_*": "read"}}, "forget_task", False, "ask"),
        ({"modes": {"*": "read", "create_*": "permit"}}, "create_task", False, "permit"),
        ({"modes": {"create_*": "permit", "*": "read"}}, "create_task", False, "permit"),
        ({"modes": {"*": "read", "*_task": "ask", "create_*": "permit"}}, "create_task", False, "ask"),
        ({"modes": {"Get": "read"}}, "get", False, "ask"),
    ],
)
def test_the_strictest_mode_that_fits_a_tool_holds(more: dict[str, Any], tool: str, hinted: bool, mode: str) -> None:
    assert tools.Server.model_validate({**ENTRY, **more}).mode(tool, hinted=hinted) == mode


def test_a_server_without_reading_tools_is_told_apart() -> None:
    assert not tools.Server.model_validate({**ENTRY, "modes": {"*": "permit"}}).reads
    assert tools.Server.model_validate({**ENTRY, "modes": {"get": "read"}}).reads
    assert tools.Server.model_validate({**ENTRY, "trustReadOnlyHint": True}).reads


def test_two_servers_of_one_name_are_refused_by_all_who_are_given_them() -> None:
    """The later one would take the place of the first, with its mode."""
    twice = [{**ENTRY, "tools": ["create_task"]}, {**ENTRY, "modes": {"*": "read"}}]
    with pytest.raises(pydantic.ValidationError, match="every name may occur once, and x occurs again"):
        tools.Tools.model_validate({"mcp_servers": twice})
    with pytest.raises(pydantic.ValidationError, match="every name may occur once"):
        kb_settings.Settings(agent_servers=twice)


@pytest.mark.parametrize("wrong", [{"modes": {"*": "write"}}, {"modes": ["read"]}, {"readOnly": True}])
def test_what_is_no_mode_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(pydantic.ValidationError):
        tools.Server.model_validate({**ENTRY, **wrong})
