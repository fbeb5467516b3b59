"""Bringing the whole cluster up, down, and telling how it is; every step is harmless when it is done already."""

from __future__ import annotations

import functools
import http.client
import shutil
import subprocess
from pathlib import Path

from hack.cluster import (
    addons,
    apiserver,
    binaries,
    certificates,
    cgroups,
    containerd,
    controlplane,
    dns,
    enforcement,
    etcd,
    kubelet,
    mounts,
    netns,
    ownership,
    pause,
    process,
    progress,
    proxy,
    services,
    steps,
)
from hack.cluster.layout import Layout

# In the order of starting; stopped the other way round.
COMPONENTS = (
    "containerd",
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "network-policies",
    "coredns",
)
ALL = (*COMPONENTS, *services.NAMES)
GUESTS = ("dovecot", "smtpd", "gitea")
"""Servers of the demonstration in the namespace (`hack.demo.servers`), which goes with the cluster."""
_STORE = etcd.Addresses("http://127.0.0.1:2379", "http://127.0.0.1:2380")


def up(layout: Layout, report: progress.Progress) -> None:
    """Start whatever does not run and return when pods can be scheduled, resolved and served.

    Raises errors.Failure and its subclasses with one sentence for the terminal.
    """
    steps.run(builds(layout, report))  # first, so that nothing is compiled while the cluster waits
    programs = binaries.directory(binaries.KUBERNETES, report)
    with ownership.exclusive(layout):
        replace_predecessor(layout, report)
        ensure_network(layout, report)
        for service in services.ALL:
            service.launch(layout, report)
        files = apiserver.Files.issue(certificates.Authority(layout.directory / "certificates"), layout.endpoint)
        with report.step("control plane"):
            _start_control_plane(layout, programs, files)
        with report.step("node"):
            _start_node(layout, programs, files, report)
        for service in services.ALL:
            service.wait(layout)
        report.say("data services answer")


def runtime(layout: Layout, report: progress.Progress) -> None:
    """Start containerd alone: images can be loaded while the rest of the cluster is built. `up` goes on from there."""
    with ownership.exclusive(layout):
        replace_predecessor(layout, report)
        ensure_network(layout, report)
        _start(layout, "containerd", containerd.command(layout))
        _ready_runtime(layout, fresh=not (layout.directory / "etcd").exists())


def builds(layout: Layout, report: progress.Progress) -> list[steps.Step]:
    """What the cluster and its data services are made of; each ends at once when the cache has it."""
    return [
        *(
            steps.Step(tool.module, functools.partial(binaries.directory, tool, report), tool.pending_seconds())
            for tool in (binaries.KUBERNETES, binaries.COREDNS, binaries.PAUSE)
        ),
        *(
            steps.Step(service.name, functools.partial(service.command, layout, report), service.build_seconds())
            for service in services.ALL
        ),
    ]


def down(layout: Layout, report: progress.Progress) -> None:
    """Stop everything and forget the cluster's content; images and built programs stay for the next start."""
    with ownership.exclusive(layout):
        other = ownership.predecessor(layout)
        if other is not None:
            report.say(f"the running cluster '{layout.name}' belongs to {other.directory}; its own checkout stops it")
            return
        with report.step(f"stopping cluster '{layout.name}'"):
            halt(layout)
            forget(layout)


def ensure_network(layout: Layout, report: progress.Progress) -> None:
    """The namespace; processes that were left in one that is gone are stopped first."""
    if not netns.exists(layout):
        for daemon in _daemons(layout):
            if daemon.identity() is not None:
                report.say(f"{daemon.name} runs in a network that is gone: stopping it")
                daemon.stop()
    netns.up(layout)
    ownership.claim(layout)


def replace_predecessor(layout: Layout, report: progress.Progress) -> None:
    """Another checkout's cluster of this name is stopped (its content stays), and a line says so."""
    other = ownership.predecessor(layout)
    if other is None:
        return
    alive = [daemon.name for daemon in _daemons(other) if daemon.identity() is not None]
    state = f"running ({', '.join(alive)})" if alive else "dead"
    report.say(
        f"cluster '{layout.name}' of {other.directory} is {state}: replacing it "
        "(set JERVIS_CLUSTER_NAME to have two side by side)"
    )
    halt(other)


def halt(layout: Layout) -> None:
    """Stop every process of the cluster and undo namespace, mounts and control groups; its content stays."""
    daemons = {daemon.name: daemon for daemon in _daemons(layout)}
    for name in GUESTS:
        process.Daemon(name, layout.daemons).stop()
    for name in reversed(COMPONENTS[1:]):
        daemons[name].stop()
    for identity in [*containerd.shims(layout), *cgroups.members(layout.cgroup)]:
        identity.stop(grace=0.5)
    daemons["containerd"].stop()
    for service in services.ALL:
        service.stop(layout)
    mounts.unmount([layout.run, kubelet.root(layout)])
    netns.down(layout)
    cgroups.remove(layout.cgroup)
    shutil.rmtree(layout.run, ignore_errors=True)


def forget(layout: Layout) -> None:
    """Remove the content of a halted cluster and of its data services; images stay."""
    for name in ("etcd", "kubelet", "pods", "disks", *services.NAMES):
        shutil.rmtree(layout.directory / name, ignore_errors=True)
    layout.kubeconfig.unlink(missing_ok=True)


def status(layout: Layout) -> dict[str, str]:
    """{name: running | stopped | starting} of every process, and of the namespace."""
    found = {"network namespace": "present" if netns.exists(layout) else "absent"}
    for name in COMPONENTS:
        found[name] = "running" if process.Daemon(name, layout.daemons).identity() else "stopped"
    for service in services.ALL:
        found[service.name] = service.state(layout)
    return found


def _daemons(layout: Layout) -> list[process.Daemon]:
    return [process.Daemon(name, layout.daemons) for name in ALL]


def _start_control_plane(layout: Layout, programs: Path, files: apiserver.Files) -> None:
    fresh = not (layout.directory / "etcd").exists()
    _start(layout, "containerd", containerd.command(layout))
    _start(layout, "etcd", etcd.command(programs / "etcd", layout.directory / "etcd", _STORE))
    kubelet_rights = (
        f"--kubelet-client-certificate={files.admin.certificate}",
        f"--kubelet-client-key={files.admin.key}",
        f"--kubelet-certificate-authority={files.authority.pair.certificate}",
        "--kubelet-preferred-address-types=InternalIP",
    )
    program = programs / "kube-apiserver"
    api = _start(
        layout, "kube-apiserver", apiserver.command(program, layout.endpoint, files, _STORE.client, kubelet_rights)
    )
    _ready_runtime(layout, fresh=fresh)
    pause.ensure(layout)
    api.wait(lambda: apiserver.ready(layout.endpoint, files), 60)
    files.authority.kubeconfig(layout.kubeconfig, layout.endpoint.url, files.admin)
    for name, build in (
        ("kube-controller-manager", lambda path, config: controlplane.controller_manager(path, config, files)),
        ("kube-scheduler", controlplane.scheduler),
    ):
        _start(layout, name, build(programs / name, _login(layout, files, name)))


def _ready_runtime(layout: Layout, *, fresh: bool) -> None:
    daemon = process.Daemon("containerd", layout.daemons)
    daemon.wait(lambda: containerd.ready(layout), 30)
    if fresh and containerd.sweep(layout):
        # Containers of a forgotten cluster: its restart makes the runtime forget them too.
        daemon.stop()
        _start(layout, "containerd", containerd.command(layout)).wait(lambda: containerd.ready(layout), 30)


def _start_node(layout: Layout, programs: Path, files: apiserver.Files, report: progress.Progress) -> None:
    cgroups.make(layout.cgroup)
    authority = files.authority
    node = authority.issue("kubelet", f"/O=system:nodes/CN=system:node:{layout.name}", (layout.node, layout.name))
    login = authority.kubeconfig(layout.directory / "kubelet.kubeconfig", layout.endpoint.url, node)
    agent = _start(
        layout,
        "kubelet",
        kubelet.command(layout, programs / "kubelet", login, authority.pair.certificate, node),
    )
    addons.renew_disks(layout, programs / "kubectl")
    addons.apply(layout, programs / "kubectl")
    coredns = binaries.program(binaries.COREDNS, "coredns", report)
    resolver = _start(layout, "coredns", dns.command(layout, coredns, _login(layout, files, "coredns")))
    reader = authority.issue("network-policies", "/CN=system:network-policies")
    filters = _start(layout, "network-policies", enforcement.command(layout, authority.pair.certificate, reader))
    agent.wait(lambda: _node_has(layout, programs / "kubectl", "{.metadata.name}") == layout.name, 60)
    router = _start(
        layout,
        "kube-proxy",
        proxy.command(layout, programs / "kube-proxy", _login(layout, files, "kube-proxy")),
    )
    condition = '{.status.conditions[?(@.type=="Ready")].status}'
    agent.wait(lambda: _node_has(layout, programs / "kubectl", condition) == "True", 60)
    router.wait(lambda: _answers(layout, 10256, "/healthz"), 30)
    filters.wait(lambda: enforcement.ready(layout), 30)
    resolver.wait(lambda: _answers(layout, 8181, "/ready"), 30)


def _start(layout: Layout, name: str, command: list[str | Path]) -> process.Daemon:
    daemon = process.Daemon(name, layout.daemons)
    daemon.start(command, prefix=netns.prefix(layout))
    return daemon


def _login(layout: Layout, files: apiserver.Files, name: str) -> Path:
    """The kubeconfig of a component, as the user that RBAC knows by its name."""
    pair = files.authority.issue(name, f"/CN=system:{name}")
    return files.authority.kubeconfig(layout.directory / f"{name}.kubeconfig", layout.endpoint.url, pair)


def _node_has(layout: Layout, kubectl: Path, path: str) -> str:
    command = [str(kubectl), f"--kubeconfig={layout.kubeconfig}", "get", "node", layout.name, "-o", f"jsonpath={path}"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def _answers(layout: Layout, port: int, path: str) -> bool:
    connection = http.client.HTTPConnection(layout.node, port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):  # not listening yet
        return False
    finally:
        connection.close()
