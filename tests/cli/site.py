"""What tests do with the apiserver: play the operator's part, run the command, read what is there."""

from __future__ import annotations

import json
import os
import pty
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli import __main__ as main
from contracts.api import history
from crds import GROUP, VERSION
from hack.cluster import certificates
from tests import endpoints, waiting

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def succeeded(self) -> Done:
        """Itself, of which the exit status says so."""
        assert self.code == 0, self
        return self

    def refused(self, *words: str, code: int = 1) -> Done:
        """Itself, with that exit status and all of these words among its errors."""
        assert self.code == code, self
        for part in words:
            assert part in self.err, f"{part!r} is not in {self.err}"
        return self


Call = Callable[..., Done]
"""The fixture `call`: the command in this process. Without `flags` it is an administrator's in the test's namespace."""


class Site:
    """One namespace."""

    def __init__(self, kubeconfig: Path, custom: Any, core: Any, namespace: str) -> None:
        self.kubeconfig, self.core, self.namespace = kubeconfig, core, namespace
        self._custom = custom

    def task(self, name: str, spec: Any = None, status: Any = None, **metadata: Any) -> Any:
        """Create a task; `status` is written as the operator would."""
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "PendingTask",
            "metadata": {"name": name, **metadata},
            "spec": {"type": "EmailProcessing", "clientId": "acme", "content": "Please.", **(spec or {})},
        }
        made = self._custom.create_namespaced_custom_object(GROUP, VERSION, self.namespace, "pendingtasks", body)
        return self.status(name, status) if status else made

    def status(self, name: str, status: Any, plural: str = "pendingtasks") -> Any:
        """Merge into the status."""
        return self._custom.patch_namespaced_custom_object_status(
            *(GROUP, VERSION, self.namespace, plural, name),
            {"status": status},
            _content_type="application/merge-patch+json",
        )

    def patch(self, name: str, body: Any) -> Any:
        """Merge into the object."""
        return self._custom.patch_namespaced_custom_object(
            *(GROUP, VERSION, self.namespace, "pendingtasks", name), body, _content_type="application/merge-patch+json"
        )

    def get(self, name: str, plural: str = "pendingtasks") -> Any:
        """The object as it is."""
        return self._custom.get_namespaced_custom_object(GROUP, VERSION, self.namespace, plural, name)

    def names(self) -> list[str]:
        """The tasks that there are."""
        listed = self._custom.list_namespaced_custom_object(GROUP, VERSION, self.namespace, "pendingtasks")
        return sorted(one["metadata"]["name"] for one in listed["items"])

    def backend(self, name: str, spec: Any, status: Any = None) -> None:
        """Create a GpuBackend; `status` is written as operator and router would."""
        self._other("GpuBackend", name, spec, status)

    def connection(self, name: str, spec: Any, status: Any) -> None:
        """Create a Connection, in the same way."""
        self._other("Connection", name, spec, status)

    def _other(self, kind: str, name: str, spec: Any, status: Any) -> None:
        where = (GROUP, VERSION, self.namespace, f"{kind.lower()}s")
        body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": {"name": name}, "spec": spec}
        self._custom.create_namespaced_custom_object(*where, body)
        if status:
            patch, media = {"status": status}, "application/merge-patch+json"
            self._custom.patch_namespaced_custom_object_status(*where, name, patch, _content_type=media)

    def expose(self, component: str, port: int) -> None:
        """A Service of the chart's labels before a process of this machine that listens on `own_address()`."""
        name = f"release-{component}"
        named = [{"name": "http", "port": port, "protocol": "TCP"}]
        labels = {"app.kubernetes.io/part-of": "jervis", "app.kubernetes.io/component": component}
        body = {"metadata": {"name": name, "labels": labels}, "spec": {"ports": named}}
        self.core.create_namespaced_service(self.namespace, body)
        self.core.create_namespaced_service_account(self.namespace, {"metadata": {"name": "default"}})
        # The apiserver's proxy wants a pod behind an address, and no controller makes endpoints here.
        spec = {"containers": [{"name": "it", "image": "fake"}], "automountServiceAccountToken": False}
        self.core.create_namespaced_pod(self.namespace, {"metadata": {"name": name}, "spec": spec})
        own = own_address()
        status = {"status": {"podIP": own, "podIPs": [{"ip": own}]}}
        self.core.patch_namespaced_pod_status(name, self.namespace, status)
        endpoints.make(self.core, self.namespace, name, own, name, named)

    def command(self, *arguments: str, user: Path | None = None) -> list[str]:
        """The command line of a process."""
        return [sys.executable, "-m", "cli", *arguments, *self.flags(user)]

    def flags(self, user: Path | None = None) -> list[str]:
        """Which cluster, as whom."""
        return ["--kubeconfig", str(user or self.kubeconfig), "-n", self.namespace]

    def start(self, *arguments: str, user: Path | None = None, stdin: int = subprocess.DEVNULL) -> Any:
        """The command as a process that runs on."""
        return subprocess.Popen(
            self.command(*arguments, user=user),
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, user: Path | None = None) -> Done:
        """The command as a process, to its end."""
        return ended(self.start(*arguments, user=user))

    def typed(self, keys: bytes, *arguments: str) -> Done:
        """The command as a process on a terminal, on which these keys are typed."""
        ours, theirs = pty.openpty()
        process = self.start(*arguments, stdin=theirs)
        os.close(theirs)
        os.write(ours, keys)
        done = ended(process)
        os.close(ours)
        return done

    def operator(self, address: str = "jervis-operator:history", namespace: str = "") -> None:
        """The account by which the chart says where the operator is; `namespace`: that of the release, if another."""
        labels = {"app.kubernetes.io/part-of": "jervis", "app.kubernetes.io/component": history.COMPONENT}
        there = {history.ADDRESS_ANNOTATION: f"{namespace or self.namespace}/{address}"}
        account = {"metadata": {"name": "jervis-history", "labels": labels, "annotations": there}}
        self.core.create_namespaced_service_account(self.namespace, account)

    def user(self, name: str) -> Path:
        """A kubeconfig of somebody without any rights yet."""
        authority = certificates.Authority(self.kubeconfig.parent / "certificates")
        server = str(json.loads(self.kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
        pair = authority.issue(name, f"/CN={name}")
        return authority.kubeconfig(self.kubeconfig.parent / f"{name}.kubeconfig", server, pair)


def own_address() -> str:
    """An address of this machine that is not loopback: the apiserver's proxy leads to no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("198.51.100.1", 9))
        return str(probe.getsockname()[0])


def ended(process: Any) -> Done:
    """Wait for a process; one that hangs fails."""
    with process:
        try:
            out, err = process.communicate(timeout=waiting.PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return Done(process.returncode, out, err)


def call(capsys: Any, *arguments: str, program: Callable[[Sequence[str]], int] = main.main) -> Done:
    """The command in this process: the same code without the start of an interpreter."""
    try:
        code = program(arguments)
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 0
    said = capsys.readouterr()
    return Done(code, said.out, said.err)
