"""What an import costs: the `kubernetes` package is loaded only where its configuration is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"kubernetes", "aiohttp", "kube"}


@pytest.mark.parametrize(
    ("module", "loads"),
    [("kube", {"aiohttp", "kube"}), ("kube.lease", {"aiohttp", "kube"}), ("router.__main__", set[str]())],
)
def test_what_is_loaded(module: str, loads: set[str]) -> None:
    program = f"import sys, {module}; print(*sys.modules, sep='\\n')"
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert HEAVY & set(told.split()) == loads


@pytest.mark.parametrize(("kubeconfig", "home"), [("/nowhere/kubeconfig", True), (None, False)])
def test_no_way_to_an_apiserver_is_said_with_a_remedy(kubeconfig: str | None, home: bool) -> None:
    import kube

    with pytest.raises(kube.Unconfigured) as raised:
        kube.configuration(kubeconfig, home=home)
    assert (raised.value.field, "service account" in (raised.value.remedy or "")) == ("KUBECONFIG", True)
