"""What the user sees at the end: the tasks, the answer with its evidence, and what to try next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from crds import pendingtask
from hack.demo import plugin
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
    name = asked.metadata.name
    console.print(f"[bold]$ kubectl jervis result {name}[/]")
    console.print(plugin.run(cluster, "result", name).rstrip(), markup=False, highlight=False, soft_wrap=True)
    if wanted.simulated:
        console.print("\n[yellow]The language models are simulators: the words come from rules, not from a model.[/]")
    console.print("\n[bold]what to try next[/]")
    for command, meaning in _next(asked):
        console.print(f"  {command:<62} [dim]# {meaning}[/]", soft_wrap=True)


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
        ("make demo OLLAMA_URL=http://HOST:11434", "the same with a real Ollama"),
        ("make demo-down", "remove everything"),
    ]
