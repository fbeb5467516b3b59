"""`kb.api` imports its modules when they are used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kb import api


def test_every_name_is_there() -> None:
    assert len(api.modules()) > 200
    for name, (module, inner) in api.modules().items():
        assert getattr(api, name) is getattr(sys.modules[module], inner)
    assert set(api.modules()) == set(dir(api))
    assert not hasattr(api, "NotThere")


def test_every_module_is_listed_and_nothing_private() -> None:
    inner = {f"kb.api.{path.stem}" for path in Path(api.__file__).parent.glob("*.py")} - {"kb.api.__init__"}
    assert {module for module, _ in api.modules().values() if module.startswith("kb.api.")} == inner - {"kb.api.words"}
    assert [name for name in api.modules() if name.startswith("_")] == []


@pytest.mark.parametrize("imported", ["kb.client", "kb.routes"])
def test_the_client_brings_no_models_that_are_not_used(imported: str) -> None:
    code = f"import sys, {imported}; print(*sorted(name for name in sys.modules if name.startswith('kb.api.')))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert found in ([], ["contracts.api.message"])
