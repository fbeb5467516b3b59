"""Names and addresses of clusters."""

from __future__ import annotations

import ipaddress
import os
import subprocess
from pathlib import Path

import pytest

from hack.cluster import binaries, errors, external, layout, progress


def test_the_default_is_in_the_checkout() -> None:
    place = layout.read({})
    assert place.directory == layout.CHECKOUT / ".cluster"
    assert (place.name, place.host, place.node) == ("jervis", "198.18.0.1", "198.18.0.2")


@pytest.mark.parametrize("name", ["a", "ci-1234", "a-name-that-has-thirty-two-chars"])
def test_other_names_get_other_addresses_of_the_reserved_range(name: str) -> None:
    place = layout.read({"JERVIS_CLUSTER_NAME": name, "JERVIS_CLUSTER_DIR": "/tmp/x"})
    network = ipaddress.IPv4Network(f"{place.host}/30", strict=False)
    assert network.subnet_of(ipaddress.IPv4Network("198.18.0.0/15"))
    assert list(map(str, network.hosts())) == [place.host, place.node]
    assert place.host != layout.read({}).host
    assert all(len(interface) <= 15 for interface in place.cable)
    assert place.directory == Path("/tmp/x")
    assert layout.read({}).run != place.run


@pytest.mark.parametrize(
    ("environment", "directory"),
    [
        ({}, ".cluster"),
        ({"JERVIS_CLUSTER_NAME": "jervis"}, ".cluster"),
        ({"JERVIS_CLUSTER_NAME": "b"}, ".cluster-b"),
        ({"JERVIS_CLUSTER_NAME": "b", "JERVIS_CLUSTER_DIR": "/tmp/x"}, "/tmp/x"),
        ({"JERVIS_CLUSTER_DIR": "/tmp/x"}, "/tmp/x"),
    ],
    ids=["default", "its name", "another name", "name and directory", "directory"],
)
def test_each_name_has_a_directory_of_its_own_which_make_and_git_know(
    environment: dict[str, str], directory: str
) -> None:
    """In a shared one, the start of the second cluster would stop the processes of the first by their records."""
    place = layout.read(environment)
    assert place.directory == layout.CHECKOUT / directory
    rest = {name: value for name, value in os.environ.items() if not name.startswith(("JERVIS_CLUSTER", "MAKE"))}
    told = ["make", "--no-print-directory", "--eval=told: ; @echo $(CLUSTER_DIR)", "told"]
    made = subprocess.run(
        told, cwd=layout.CHECKOUT, env=rest | environment, capture_output=True, text=True, check=True
    ).stdout
    assert Path(made.strip()) == place.directory
    if place.directory.is_relative_to(layout.CHECKOUT):
        assert subprocess.run(["git", "check-ignore", "-q", f"{directory}/"], cwd=layout.CHECKOUT).returncode == 0


@pytest.mark.parametrize("name", ["Upper", "1digit", "-dash", "dash-", "a b", "../up", "x" * 33])
def test_a_name_that_cannot_be_used_is_refused_with_the_rule(name: str) -> None:
    with pytest.raises(errors.Failure, match=r"JERVIS_CLUSTER_NAME=.* use 1 to 32 of a-z"):
        layout.read({"JERVIS_CLUSTER_NAME": name})


def test_only_a_foreign_kubeconfig_is_the_users(tmp_path: Path) -> None:
    place = layout.of(tmp_path, "jervis")
    assert external.kubeconfig(place, {}) is None
    assert external.kubeconfig(place, {"KUBECONFIG": ""}) is None
    assert external.kubeconfig(place, {"KUBECONFIG": str(place.kubeconfig)}) is None
    assert external.kubeconfig(place, {"KUBECONFIG": "/home/me/.kube/config"}) == "/home/me/.kube/config"


@pytest.mark.apiserver
def test_a_kubeconfig_that_leads_nowhere_is_said_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl = binaries.program(binaries.KUBERNETES, "kubectl", progress.Progress())
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{kubectl.parent}")
    with pytest.raises(errors.Failure, match=r"does not answer .* unset KUBECONFIG"):
        external.check(str(tmp_path / "absent"))


def test_a_cluster_of_ones_own_needs_kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(errors.Missing, match=r"kubectl is missing: install it .* unset KUBECONFIG"):
        external.check(str(tmp_path / "absent"))
