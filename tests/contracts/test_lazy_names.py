"""`codegraph.api` and `kb.api` import their modules when they are used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from codegraph import api as code_api
from kb import api as kb_api

APIS = {"codegraph.api": (code_api, 50, set()), "kb.api": (kb_api, 200, {"kb.api.words"})}
"""Each package, with the least number of its names and the modules of which no name is for callers."""


@pytest.mark.parametrize("package", APIS)
def test_every_name_is_there(package: str) -> None:
    api, least, _ = APIS[package]
    assert len(api.modules()) > least
    for name, (module, inner) in api.modules().items():
        assert getattr(api, name) is getattr(sys.modules[module], inner)
    assert set(api.modules()) == set(dir(api))
    assert not hasattr(api, "NotThere")


@pytest.mark.parametrize("package", APIS)
def test_every_module_is_listed_and_nothing_private(package: str) -> None:
    api, _, unlisted = APIS[package]
    inner = {f"{package}.{path.stem}" for path in folder(api).glob("*.py")} - {f"{package}.__init__"}
    listed = {module for module, _ in api.modules().values() if module.startswith(f"{package}.")}
    assert listed == inner - unlisted
    assert [name for name in api.modules() if name.startswith("_")] == []


def folder(api: ModuleType) -> Path:
    return Path(str(api.__file__)).parent


@pytest.mark.parametrize("imported", ["kb.client", "kb.routes"])
def test_the_client_brings_no_models_that_are_not_used(imported: str) -> None:
    models = tuple(f"{package}." for package in APIS)
    code = f"import sys, {imported}; print(*sorted(name for name in sys.modules if name.startswith({models!r})))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert found == []
