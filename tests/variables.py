"""The environment variables that a process reads. What starts one in a test refuses any other: it would be ignored, and
the test would wait for the default."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable

from pydantic import AliasChoices
from pydantic_settings import BaseSettings

PREFIX = "JERVIS_"


@functools.cache
def read_by(module: str) -> frozenset[str]:
    """The variables of all classes of settings in a module, in capital letters. It is imported by the first who asks:
    a test that starts no process does not wait for it."""
    names: set[str] = set()
    for kind in vars(importlib.import_module(module)).values():
        if isinstance(kind, type) and issubclass(kind, BaseSettings):
            prefix = kind.model_config.get("env_prefix", "")
            for name, field in kind.model_fields.items():
                alias = field.validation_alias
                aliases = alias.choices if isinstance(alias, AliasChoices) else [alias] if alias else []
                names |= {str(choice).upper() for choice in aliases}
                if not aliases or kind.model_config.get("populate_by_name"):
                    names.add(f"{prefix}{name}".upper())
    return frozenset(names)


def check(names: Iterable[str], *modules: str) -> None:
    """Fail for a variable of ours that no settings of these modules have."""
    ignored = {name for name in names if name.startswith(PREFIX)}.difference(*map(read_by, modules))
    assert not ignored, f"no setting of the process: {', '.join(sorted(ignored))}"
