"""The stand-alone apiserver is the real one: admission, rights, and nothing of it off loopback or left over."""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.cluster import binaries as built
from hack.cluster import layout, process, progress, standalone

pytestmark = pytest.mark.apiserver


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[standalone.Server]:
    with standalone.apiserver(tmp_path_factory.mktemp("standalone")) as server:
        yield server


def kubectl(server: standalone.Server, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    program = shutil.which("kubectl") or built.program(built.KUBERNETES, "kubectl", progress.Progress())
    command = [str(program), f"--kubeconfig={server.kubeconfig}", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True)


def test_an_admission_policy_decides(server: standalone.Server) -> None:
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-secrets"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
                ]
            },
            "validations": [{"expression": "!has(object.data)", "message": "keep it empty"}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-secrets"},
        "spec": {"policyName": "no-secrets", "validationActions": ["Deny"]},
    }
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": [policy, binding]})
    assert kubectl(server, "apply", "-f", "-", stdin=items).returncode == 0
    refused = ""
    for number in range(100):  # the apiserver compiles a new policy within a second or so
        made = kubectl(server, "create", "configmap", f"full-{number}", "--from-literal=a=b")
        refused = made.stderr
        if made.returncode != 0:
            break
    assert "keep it empty" in refused
    assert kubectl(server, "create", "configmap", "empty").returncode == 0


def test_rights_are_checked_and_nobody_is_anonymous(server: standalone.Server) -> None:
    denied = kubectl(server, "get", "secrets", "--as=someone")
    assert 'User "someone" cannot list resource "secrets"' in denied.stderr
    context = ssl.create_default_context(cafile=server.kubeconfig.parent / "certificates" / "ca.crt")
    with pytest.raises(urllib.error.HTTPError) as failure:
        urllib.request.urlopen(f"{server.url}/api", context=context)
    assert failure.value.code == 401
    failure.value.close()


def test_it_listens_on_loopback_alone(server: standalone.Server) -> None:
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes(server.kubeconfig.parent):
                assert fields[1].startswith("0100007F:"), line
                ports.add(int(fields[1][9:], 16))
    assert int(server.url.rpartition(":")[2]) in ports
    assert len(ports) == 3


def test_both_processes_end_with_a_killed_caller(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hack.cluster", "apiserver", str(tmp_path)]
    with subprocess.Popen(command, cwd=layout.CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as caller:
        assert caller.stdout is not None
        assert caller.stdout.readline() == f"export KUBECONFIG={tmp_path}/kubeconfig\n".encode()
        identities = [process.Daemon(name, tmp_path).identity() for name in ("etcd", "kube-apiserver")]
        os.kill(caller.pid, signal.SIGKILL)
    for identity in identities:
        assert identity is not None
        while identity.alive():  # the kernel's signal is on its way; a hang is pytest's own timeout
            os.sched_yield()


def inodes(directory: Path) -> set[str]:
    """Socket inodes of the processes recorded in `directory`."""
    found = set()
    for name in ("etcd", "kube-apiserver"):
        identity = process.Daemon(name, directory).identity()
        assert identity is not None
        for descriptor in Path(f"/proc/{identity.pid}/fd").iterdir():
            target = os.readlink(descriptor)
            if target.startswith("socket:["):
                found.add(target[8:-1])
    return found
