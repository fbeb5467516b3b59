"""`python -m hack.cluster COMMAND`: the local Kubernetes and its data services. See --help."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from hack.cluster import (
    binaries,
    errors,
    external,
    layout,
    lifecycle,
    mailservers,
    ownership,
    prerequisites,
    progress,
    services,
    standalone,
    steps,
)

_Command = Callable[[argparse.Namespace, layout.Layout, progress.Progress], int]


def main(arguments: list[str]) -> int:
    """Exit status: 0 done, 1 failed (one line on stderr says why), 3 `status` of a cluster that is not whole."""
    parsed = _parser().parse_args(arguments)
    run: _Command = parsed.run
    try:
        return run(parsed, layout.from_environment(), progress.Progress())
    except errors.Failure as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hack.cluster", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: _Command, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        return command

    add("up", _up, "start the cluster and the data services; prints the KUBECONFIG path")
    add("down", _down, "stop all of it and forget its content; images and built programs stay")
    add("status", _status, "one line per process; exit 3 unless all run")
    add("env", _env, "shell exports for kubectl and for the tests")
    add("services-up", _services_up, "start only the data services")
    add("services-down", _services_down, "stop the data services; their data stays")
    service = add("service", _service, "start, stop or look at one data service")
    service.add_argument("name", choices=services.NAMES)
    service.add_argument("action", choices=("start", "stop", "status"))
    api = add("apiserver", _apiserver, "etcd and kube-apiserver alone on loopback, until interrupted")
    api.add_argument("directory", type=Path)
    add("mailserver", _mailserver, "install or fetch the mail servers that tests of the sources start")
    add("programs", _programs, "install the Debian packages of all programs that the tests start")
    tool = add(
        "tool", _tool, "build a program (helm, kubectl, kubeconform ...), link it in bin of the cluster, print its path"
    )
    tool.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    return parser


def _up(_: argparse.Namespace, place: layout.Layout, report: progress.Progress) -> int:
    config = external.kubeconfig(place, os.environ)
    if config is not None:
        print(external.check(config))
        report.say(f"using the cluster of KUBECONFIG={config}; the local one is not touched")
        return 0
    prerequisites.ensure(prerequisites.CLUSTER, report)
    lifecycle.up(place, report)
    report.say("cluster is up")
    print(f"export KUBECONFIG={shlex.quote(str(place.kubeconfig))}")
    return 0


def _down(_: argparse.Namespace, place: layout.Layout, report: progress.Progress) -> int:
    config = external.kubeconfig(place, os.environ)
    if config is not None:
        report.say(f"KUBECONFIG={config} names a cluster of yours: it is left alone")
        return 0
    prerequisites.ensure({"iproute2": "ip"}, report)
    lifecycle.down(place, report)
    return 0


def _status(_: argparse.Namespace, place: layout.Layout, report: progress.Progress) -> int:
    config = external.kubeconfig(place, os.environ)
    if config is not None:
        print(external.check(config))
        return 0
    found = lifecycle.status(place)
    for name, state in found.items():
        print(f"{name:26}{state}")
    return 0 if set(found.values()) <= {"running", "present"} else 3


def _env(_: argparse.Namespace, place: layout.Layout, report: progress.Progress) -> int:
    for name, value in layout.environment_of(place).items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def _services_up(_: argparse.Namespace, place: layout.Layout, report: progress.Progress) -> int:
    prerequisites.ensure(prerequisites.CLUSTER, report)
    steps.run([one for one in lifecycle.builds(place, report) if one.name in services.NAMES])
    with ownership.exclusive(place):
        lifecycle.replace_predecessor(place, report)
        lifecycle.ensure_network(place, report)
        for service in services.ALL:
            service.launch(place, report)
        for service in services.ALL:
            with report.step(f"{service.name} answers"):
                service.wait(place)
    return 0


def _mailserver(_: argparse.Namespace, place: layout.Layout, report: progress.Progress) -> int:
    mailservers.ensure(report)
    return 0


def _programs(_: argparse.Namespace, place: layout.Layout, report: progress.Progress) -> int:
    prerequisites.install(prerequisites.TESTS, report)
    return 0


def _services_down(_: argparse.Namespace, place: layout.Layout, report: progress.Progress) -> int:
    with ownership.exclusive(place):
        for service in services.ALL:
            service.stop(place)
            report.say(f"{service.name} is stopped; its data stays in {place.directory / service.name}")
    return 0


def _service(parsed: argparse.Namespace, place: layout.Layout, report: progress.Progress) -> int:
    service = services.named(parsed.name)
    if parsed.action == "status":
        print(service.state(place))
        return 0
    with ownership.exclusive(place):
        if parsed.action == "stop":
            service.stop(place)
        else:
            lifecycle.ensure_network(place, report)
            service.launch(place, report)
            service.wait(place)
    return 0


def _apiserver(parsed: argparse.Namespace, place: layout.Layout, report: progress.Progress) -> int:
    stopped = threading.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, lambda *_: stopped.set())
    with standalone.apiserver(parsed.directory, report) as server:
        print(f"export KUBECONFIG={shlex.quote(str(server.kubeconfig))}", flush=True)
        report.say(f"{server.url} answers; Ctrl-C stops it")
        stopped.wait()
    return 0


def _tool(parsed: argparse.Namespace, place: layout.Layout, report: progress.Progress) -> int:
    makers = {name: tool for tool in binaries.ALL for name in tool.programs}
    links = place.directory / "bin"
    links.mkdir(parents=True, exist_ok=True)
    for name in parsed.names or makers:
        if name not in makers:
            raise errors.Failure(f"there is no program {name!r}; there are {', '.join(makers)}")
        program = binaries.program(makers[name], name, report)
        link = links / name
        link.unlink(missing_ok=True)
        link.symlink_to(program)
        print(program)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
