"""docs/cli.md, "From a file to an answer": its commands are run in order, and say what the page says they say."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from hack.demo import plugin
from tests import console, thorough
from tests.conftest import ROOT
from tests.e2e.site import Site

pytestmark = thorough.only

PAGE = (ROOT / "docs" / "cli.md").read_text()
_HEADING = "## From a file to an answer"


def test_from_a_file_to_an_answer(site: Site, kubeconfig_of_namespace: str, tmp_path: Path, owner: str) -> None:
    section = PAGE.split(_HEADING)[1].split("\n## ")[0]
    printed = console.commands(section)
    assert len(printed) >= 6
    (tmp_path / "question.txt").write_text("Who waters the plants in the lobby, and on which day?\n")
    shutil.copy(ROOT / "examples" / "demo" / "infrastructure-weekly.eml", tmp_path / "disk.eml")
    folders = [str(site.kubectl.program.parent), plugin.write(site.wanted), os.environ["PATH"]]
    environment = {"KUBECONFIG": kubeconfig_of_namespace, "PATH": ":".join(folders)}
    wrong = []
    with console.shell(tmp_path, environment) as shell:
        for command, expected in printed:
            if command.startswith("kubectl jervis get plants"):
                # The page shows the question, which takes a moment to be asked.
                site.kubectl.run("wait", "pt/plants", "--for=jsonpath={.status.phase}=UserTask", "--timeout=120s")
            status, output = shell.run(command.replace("--client greenhouse", f"--client {owner}"))
            if status != (1 if expected.startswith("Error:") else 0):
                wrong.append(f"$ {command}\nexit status {status}: {output}")
            elif not first_line(expected).fullmatch(output.strip().splitlines()[0]):
                wrong.append(f"$ {command}\nexpected: {expected}\nactual: {output}")
    site.kubectl.run("delete", "pendingtasks", "--all", "--ignore-not-found", seconds=120)
    assert not wrong, "\n".join(wrong)


def first_line(expected: str) -> re.Pattern[str]:
    """The first line of what the page shows; names that come from content, widths of columns and authors vary."""
    line = re.sub(r"(?:\\ )+", r"\\s+", re.escape(expected.splitlines()[0].strip()))
    line = re.sub(r"disk\\-[0-9a-f]{8}", r"disk\\-[0-9a-f]{8}", line)
    line = re.sub(r"jervis/plants", r"[a-z0-9-]+/plants", line)
    return re.compile(re.sub(r"by\\s\+admin", r"by\\s+\\S+", line) + r"\s*")
