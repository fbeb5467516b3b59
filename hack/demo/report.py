"""What the user sees at the end: the tasks, the answer with its evidence, and what to try next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from crds import pendingtask
from crds.phases import Phase
from hack.demo import expectation, plugin, small
from hack.demo.kubectl import Kubectl
from hack.demo.settings import CLIENT, PROJECT, Settings

PICTURED = "Which volume of the storage node orion-3 is full?"
"""Asked of the knowledge base: the answer stands in a screenshot and in no text."""


def show(
    console: Console,
    cluster: Kubectl,
    wanted: Settings,
    selector: str,
    question: str,
    asked: pendingtask.PendingTask,
) -> None:
    """Print the three parts."""
    console.print("\n[bold]$ kubectl get pt[/]")
    console.print(cluster.run("get", "pt", "-l", selector).rstrip(), markup=False, highlight=False, soft_wrap=True)
    console.print(f"\n[bold]{escape(question)}[/]")
    answer(console, cluster, asked)
    if wanted.simulated:
        console.print("\n[yellow]The language models are simulators: the words come from rules, not from a model.[/]")
    if wanted.small:
        console.print()
        for line in small.words():
            console.print(f"[yellow]{escape(line)}[/]", highlight=False, soft_wrap=True)
    console.print("\n[bold]what to try next[/]")
    for command, meaning in _next(asked):
        console.print(f"  {command:<62} [dim]# {meaning}[/]", soft_wrap=True)


def answer(console: Console, cluster: Kubectl, task: pendingtask.PendingTask) -> str:
    """Print the result of a task; where it has none, as may be with a real model, the phase and its reason."""
    if task.status.phase is not Phase.COMPLETED:
        text = f"{task.metadata.name} {expectation.phase(task)}: {expectation.reason(task)}"
    else:
        console.print(f"[bold]$ kubectl jervis result {task.metadata.name}[/]")
        text = plugin.run(cluster, "result", task.metadata.name).rstrip()
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    return text


def pictures(console: Console, cluster: Kubectl, tasks: Sequence[pendingtask.PendingTask], url: str) -> None:
    """What became of the mails with screenshots, and a fact that stands in one of them alone; `url` is the knowledge
    base's."""
    for task in tasks:
        route = task.status.route
        console.print(
            f"  {task.metadata.name:<28} {route.decision.value if route else '':<10} {route.reason if route else ''}",
            markup=False, soft_wrap=True,
        )  # fmt: skip
    asked = ("ask", PICTURED, "--client", CLIENT, "--project", PROJECT, "--kind", "attachment", "-n", "1")
    console.print(f"\n[bold]$ jervis-kb {escape(shlex.join(asked))}[/]")
    said = plugin.known(cluster, *asked, "--url", url)
    console.print(said.rstrip(), markup=False, highlight=False, soft_wrap=True)


def _next(asked: pendingtask.PendingTask) -> list[tuple[str, str]]:
    name = asked.metadata.name
    return [
        ('eval "$(.venv/bin/python -m hack.demo env)"', "point kubectl at this cluster and namespace"),
        ("kubectl get pt -w", "watch tasks move"),
        (f"kubectl describe pt {name}", "conditions and events of one task"),
        (f"kubectl jervis result {name}", "this answer again"),
        (f'kubectl jervis ask "..." --client {CLIENT} --wait', "a question of your own"),
        ("kubectl jervis connections", "what is polled"),
        ("kubectl get gpu -o wide", "the backends"),
        ("kubectl apply -f examples/demo/first-mail.yaml", "your first task: see docs/first-task.md"),
        ("make demo MODEL=small", "the same with a small real model"),
        ("make demo OLLAMA_URL=http://HOST:11434", "the same with your Ollama"),
        ("make demo-down", "remove everything"),
    ]
