"""`python -m hack.demo COMMAND`: install Jervis, feed it, watch it, show what came out. See --help."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Callable, Collection, Sequence
from concurrent import futures
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from hack.cluster import errors as cluster_errors
from hack.cluster import layout, progress
from hack.demo import (
    agents,
    arriving,
    connected,
    context,
    diagnosis,
    errors,
    expectation,
    forward,
    inputs,
    kubectl,
    plugin,
    relay,
    release,
    report,
    roles,
    servers,
    services,
    settings,
    small,
    speech,
    submit,
    watch,
)

_SHOTS = "one mail twice, with other words in its screenshot"
_Command = Callable[[argparse.Namespace, settings.Settings, progress.Progress], int]


def main(arguments: Sequence[str]) -> int:
    """Exit status: 0 every task ended as expected, 1 it did not, or the command failed (one line says why)."""
    parser = argparse.ArgumentParser(prog="python -m hack.demo", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, text in (
        ("up", _up, "install Jervis and show it at work; may be run again at once"),
        ("down", _down, "remove the release; `make demo-down` then removes the local cluster"),
        ("env", _env, "shell exports that point kubectl at the demonstration and let it find `kubectl jervis`"),
    ):
        commands.add_parser(name, help=text, description=settings.__doc__).set_defaults(run=run)
    parsed = parser.parse_args(arguments)
    command: _Command = parsed.run
    try:
        return command(parsed, settings.read(os.environ), progress.Progress())
    except (errors.Failure, cluster_errors.Failure) as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1


def _up(_: argparse.Namespace, wanted: settings.Settings, said: progress.Progress) -> int:
    began = time.monotonic()
    wanted = small.ensure(wanted, layout.from_environment(), said)
    roles.check(wanted, said)
    cluster = _cluster(wanted, said)
    console = _console()
    wanted = services.ensure(wanted, cluster, said)
    models = "SIMULATED" if wanted.simulated else wanted.ollama_url
    wanted = relay.ensure(wanted, layout.from_environment(), said)
    there = _installed(wanted, cluster, said)
    backends = [gpu["metadata"]["name"] for gpu in cluster.items("gpubackends")]
    cluster.run("wait", "--for=condition=Ready", "gpubackends", "--all", "--timeout=60s", seconds=90)
    said.say(f"language models: {models} ({', '.join(backends)} Ready)")
    if wanted.small:
        for line in small.words():
            said.say(line)
    if removed := submit.clear(cluster):
        said.say(f"removed {removed} tasks of earlier runs")
    connected.clear(cluster)

    now = datetime.now(UTC)
    run = f"{now:%H%M%S}"
    commits = inputs.history(wanted.checkout)
    if not commits:
        said.say("no Git history here (an unpacked archive, or nothing committed yet): going on without commits")
    first = [*inputs.mails(wanted.checkout, now), inputs.issue(wanted.checkout, now), *commits]
    question = inputs.question(wanted.checkout)
    expected: list[expectation.Expectation] = []
    seen: watch.Seen = {}
    shots = inputs.screenshots(wanted.checkout, now)
    parts = (("what arrived", first), (_SHOTS, shots), ("what a person asks", [question]))
    for title, items in parts:
        if wanted.small and items is shots:
            continue
        console.print(f"\n[bold]{title}[/] ({len(items)} {'task' if len(items) == 1 else 'tasks'})")
        submit.apply(cluster, items, run)
        batch = _expected(items, run, wanted)
        expected += batch
        seen |= watch.shown(console, cluster, submit.selector(run), batch, wanted.timeout)
        verdicts = expectation.judge(expected, seen)
        if not all(verdict.ok for verdict in verdicts):
            console.print()
            console.print(diagnosis.table(verdicts))
            diagnosis.explain(console, cluster)
            return 1
        if items is shots:
            with forward.opened(cluster, submit.KB_READ, submit.KB_PORT) as url:
                report.pictures(console, cluster, [seen[submit.name(item, run)] for item in shots], url)
    made: dict[str, list[str]] = {}
    if there is None:
        said.say("connections are shown on the local cluster alone: a cluster of yours does not reach the servers")
    else:
        try:
            made = arriving.Showing(console, cluster, wanted, run).show(there)
        except errors.Failure:
            diagnosis.explain(console, cluster)
            raise
    if wanted.small:
        made |= speech.show(console, cluster, wanted, run)
    asked = seen[submit.name(question, run)]
    report.show(console, cluster, wanted, submit.selector(run), question.content, asked)
    ordered = int(there is not None and wanted.simulated)
    if wanted.simulated:
        ended = f"{len(expected) + sum(map(len, made.values())) + ordered} tasks ended as expected"
    else:
        names = {one.task for one in expected}.union(*made.values())
        ended = _of_model(wanted, cluster, names)
    said.say(f"{ended} in {time.monotonic() - began:.0f} s")
    return 0


def _of_model(wanted: settings.Settings, cluster: kubectl.Kubectl, names: Collection[str]) -> str:
    """How the tasks `names` of a real model ended. Raises errors.Failure when fewer than half came to their own end, or
    when a server that was started here died."""
    ended = [task for task in cluster.tasks() if task.metadata.name in names]
    own = expectation.finished(ended)
    text = f"{len(ended)} tasks ended, {own} of them Completed or Done"
    if wanted.small:
        crashed = small.crashes(layout.from_environment())
        text += f"; crashes of Ollama: {len(crashed)}"
        if crashed:
            raise errors.Failure(f"{text}; the first: {crashed[0]}")
    if 2 * own < len(ended):
        raise errors.Failure(f"{text}: fewer than half")
    return text


def _installed(wanted: settings.Settings, cluster: kubectl.Kubectl, said: progress.Progress) -> servers.Servers | None:
    """The release, and on the local cluster the servers of `connected`, which start meanwhile."""
    if not wanted.local:
        with said.step("installing the chart"):
            release.install(wanted, cluster, said)
        return None
    place = layout.from_environment()
    connected.trust(cluster, place)
    if wanted.small:
        speech.prepare(cluster, wanted, said)
    with futures.ThreadPoolExecutor(1) as beside:
        starting = beside.submit(servers.start, place)
        with said.step("installing the chart"):
            values = release.overlaid(connected.values(), agents.values(wanted.namespace))
            if wanted.small:
                values = release.overlaid(values, speech.values())
            release.install(wanted, cluster, said, values)
        return starting.result()


def _expected(items: Sequence[inputs.Item], run: str, wanted: settings.Settings) -> list[expectation.Expectation]:
    strict = [expectation.Expectation(submit.name(item, run), item.story, item.expected) for item in items]
    return strict if wanted.simulated else expectation.relaxed(strict)


def _down(_: argparse.Namespace, wanted: settings.Settings, said: progress.Progress) -> int:
    relay.remove(layout.from_environment())
    small.remove(layout.from_environment())
    servers.stop(layout.from_environment())
    cluster = _cluster(wanted, said)
    if cluster.attempt("version", "--request-timeout=5s").returncode != 0:
        said.say("no cluster answers: nothing to remove")
        return 0
    with said.step(f"removing the release from namespace {wanted.namespace}"):
        release.remove(wanted, cluster, said)
        services.remove(wanted, cluster)
        if wanted.local:
            speech.remove(cluster)
    return 0


def _env(_: argparse.Namespace, wanted: settings.Settings, said: progress.Progress) -> int:
    config = context.write(wanted, _cluster(wanted, said))
    print(f"export KUBECONFIG={shlex.quote(str(config))}")
    print(f"export DEMO_NAMESPACE={shlex.quote(wanted.namespace)}")
    # A machine without kubectl gets the one that was built for the cluster, and the plugin of the checkout.
    folders = [str(Path(kubectl.find(said)).parent), plugin.write(wanted)]
    print(f'export PATH="$PATH":{shlex.quote(":".join(folders))}')
    return 0


def _console() -> Console:
    """A log has no width of its own; tables need one that they fit into."""
    return Console(emoji=False, highlight=False, width=None if sys.stdout.isatty() else 160)


def _cluster(wanted: settings.Settings, said: progress.Progress) -> kubectl.Kubectl:
    return kubectl.Kubectl(kubectl.find(said), wanted.kubeconfig, wanted.namespace)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
