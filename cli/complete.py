"""`kubectl_complete-jervis`: what kubectl (1.26 or newer) calls when a user presses Tab after `kubectl jervis`.

kubectl calls it with the words so far, the last one unfinished, and reads one completion per line, with an explanation
behind a tab, and a directive in the last line. Source: https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from cli import __main__ as main

NO_FILES = ":4"
"""ShellCompDirectiveNoFileComp of cobra."""


def lines(words: Sequence[str]) -> list[str]:
    """The answer, for the words behind `kubectl jervis`."""
    from typer import main as typer

    command: Any = typer.get_command(main.application())
    *given, incomplete = words or [""]
    found = _shell()(command, {}, "kubectl-jervis", "").get_completions(list(given), incomplete)
    return [f"{one.value}\t{one.help}" if one.help else str(one.value) for one in found] + [NO_FILES]


def run() -> int:
    """Entry point."""
    sys.stdout.write("\n".join(lines(sys.argv[1:])) + "\n")
    return 0


def _shell() -> Any:
    # Typer has a copy of click inside (its version is pinned); click itself would not know its commands as such. What
    # is asked of the class is the same for every shell.
    from typer import _completion_classes

    return _completion_classes.BashComplete


if __name__ == "__main__":
    sys.exit(run())
