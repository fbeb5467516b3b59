"""The ```console blocks of a page: the commands behind `$ `, and what they print.

`...` in the page stands for anything, on a line or as a whole line; runs of blanks count as one, because kubectl aligns
its columns. A command goes on while its line ends in a backslash.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ENDED = "__ended__"


def commands(page: str) -> list[tuple[str, str]]:
    """(command, expected output) in the page's order."""
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
    """The expected output as a pattern for `normal` output."""
    lines = [re.sub(r"(?:\\ )+", " ", re.escape(line.strip())) for line in expected.strip().splitlines()]
    parts = [
        r"(?:.*\n)*?" if line == re.escape("...") else line.replace(re.escape("..."), ".*?") + r"\s*\n"
        for line in lines
    ]
    return re.compile("".join(parts))


def normal(output: str) -> str:
    """Blanks in runs count as one."""
    return "".join(f"{re.sub(r' +', ' ', line.strip())}\n" for line in output.strip().splitlines())


@dataclass(frozen=True)
class Shell:
    """One bash for a whole page, as a reader has one: variables and exports stay."""

    process: subprocess.Popen[str]

    def run(self, command: str) -> tuple[int, str]:
        """Exit status and output of both streams."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{command}\nended=$?; echo; echo {_ENDED} $ended\n")
        self.process.stdin.flush()
        output = ""
        while not (line := self.process.stdout.readline()).startswith(_ENDED):
            assert line, f"the shell ended during {command!r}: {output}"
            output += line
        print(f"$ {command}\n{output}")
        return int(line.split()[1]), output


@contextmanager
def shell(directory: Path, environment: Mapping[str, str]) -> Iterator[Shell]:
    """A bash in `directory` with `environment` over our own."""
    with subprocess.Popen(
        ["bash"],
        cwd=directory,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        yield Shell(process)
        assert process.stdin is not None
        process.stdin.close()


def wrong(opened: Shell, page: str, typed: Callable[[str], str | None] = lambda command: command) -> list[str]:
    """Run the page's commands in order; what did not go as the page says, by command.

    `typed` gives the command to run for a printed one, or None to leave it out.
    """
    found = []
    for printed, expected in commands(page):
        command = typed(printed)
        if command is None:
            continue
        status, output = opened.run(command)
        if status != 0:
            found.append(f"$ {command}\nexit status {status}: {output}")
        elif expected and not pattern(expected).fullmatch(normal(output)):
            found.append(f"$ {command}\nexpected: {expected}\nactual: {output}")
    return found
