"""`kb.api` imports its modules when they are used: what type checkers read is what is looked up."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from kb import api


def test_what_is_looked_up_is_what_type_checkers_read() -> None:
    tree = ast.parse(Path(api.__file__).read_text())
    (checked,) = [one for one in tree.body if isinstance(one, ast.If) and ast.unparse(one.test) == "TYPE_CHECKING"]
    read: dict[str, set[str]] = {}
    for one in checked.body:
        assert isinstance(one, ast.ImportFrom)
        read.setdefault(str(one.module), set()).update(alias.asname or alias.name for alias in one.names)
    assert read == {f"kb.api.{module}": set(names) for module, names in api.MODULES.items()}
    assert set(api.__all__) <= {name for names in read.values() for name in names} | {"source_text"}


def test_every_name_is_there() -> None:
    for name in api.__all__:
        assert getattr(api, name) is not None
    assert not hasattr(api, "NotThere")


def test_the_client_brings_no_models_that_are_not_used() -> None:
    code = "import sys, kb.client; print(*sorted(name for name in sys.modules if name.startswith('kb.api.')))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert found == ["kb.api.message"]
