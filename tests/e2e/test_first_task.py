"""The page "Your first task" says the truth: its commands are executed, and marked output is compared.

A ```console block holds commands after `$ ` and what they print. `...` in the page stands for anything, on a line or as
a whole line; runs of blanks count as one, because kubectl aligns its columns.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import NAMESPACE
from tests.e2e.site import Site

PAGE = Path(__file__).parents[2] / "docs" / "first-task.md"
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[tuple[str, str]]:
    """(command, expected output) in the page's order; a command goes on while its line ends in a backslash."""
    found: list[tuple[str, str]] = []
    for block in _BLOCK.findall(page):
        continued = False
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], ""))
            elif continued:
                found[-1] = (f"{found[-1][0]}\n{line}", "")
            else:
                found[-1] = (found[-1][0], f"{found[-1][1]}{line}\n")
            continued = (line.startswith("$ ") or continued) and line.endswith("\\")
    return found


def pattern(expected: str) -> re.Pattern[str]:
    """The expected output as a pattern."""
    lines = [re.sub(r"(?:\\ )+", " ", re.escape(line.strip())) for line in expected.strip().splitlines()]
    parts = [
        r"(?:.*\n)*?" if line == re.escape("...") else line.replace(re.escape("..."), ".*?") + r"\s*\n"
        for line in lines
    ]
    return re.compile("".join(parts))


def normal(output: str) -> str:
    """Blanks in runs count as one."""
    return "".join(f"{re.sub(r' +', ' ', line.strip())}\n" for line in output.strip().splitlines())


def test_the_page_has_commands_with_output() -> None:
    found = commands(PAGE.read_text())
    assert len(found) >= 8
    assert sum(bool(expected) for _, expected in found) >= 6


def test_the_reader_of_the_page() -> None:
    page = "```console\n$ kubectl get \\\n    pt\nNAME   AGE\na      ...\n...\nlast line\n```\n"
    ((command, expected),) = commands(page)
    assert command == "kubectl get \\\n    pt"
    assert pattern(expected).fullmatch(normal("NAME  AGE\na     5s\nb  6s\nc 7s\nlast    line"))
    assert not pattern(expected).fullmatch(normal("NAME  AGE\nb     5s\nlast line"))


@pytest.fixture
def shell(site: Site) -> subprocess.Popen[str]:
    """One shell for the whole page, as a reader has one."""
    environment = {**os.environ, "DEMO_NAMESPACE": NAMESPACE, "KUBECONFIG": site.wanted.kubeconfig}
    return subprocess.Popen(
        ["bash"],
        cwd=site.wanted.checkout,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_every_command_prints_what_the_page_says(shell: subprocess.Popen[str]) -> None:
    wrong = []
    with shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        for command, expected in commands(PAGE.read_text()):
            shell.stdin.write(f"{command}\necho; echo __ended__ $?\n")
            shell.stdin.flush()
            output = ""
            while not (line := shell.stdout.readline()).startswith("__ended__"):
                assert line, f"the shell ended during {command!r}: {output}"
                output += line
            print(f"$ {command}\n{output}")
            status = int(line.split()[1])
            if status != 0:
                wrong.append(f"$ {command}\nexit status {status}: {output}")
            elif expected and not pattern(expected).fullmatch(normal(output)):
                wrong.append(f"$ {command}\nexpected: {expected}\nactual: {output}")
        shell.stdin.close()
    assert not wrong, "\n".join(wrong)
