"""The commands of docs/install.md that need nodes, as printed but for the namespace; the others run without nodes."""

from __future__ import annotations

import os
from pathlib import Path

from hack.cluster import progress
from hack.demo import kubectl
from tests import console
from tests.e2e.conftest import NAMESPACE
from tests.e2e.site import Site
from tests.repository.test_commands import INSTALL, INSTALL_NOT_RUN, NODES, reason


def here(command: str) -> str | None:
    """The command for this installation, or None for one that is run elsewhere."""
    return command.replace("-n jervis", f"-n {NAMESPACE}") if reason(INSTALL_NOT_RUN, command) == NODES else None


def test_what_needs_nodes(site: Site, tmp_path: Path) -> None:
    page = INSTALL.read_text()
    assert sum(here(command) is not None for command, _ in console.commands(page)) >= 4
    for name, found in (("helm", kubectl.helm(progress.Progress())), ("kubectl", site.kubectl.program)):
        (tmp_path / name).symlink_to(found)
    environment = {**site.kubectl.environment, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with console.shell(site.wanted.checkout, environment) as shell:
        wrong = console.wrong(shell, page, here)
    assert not wrong, "\n".join(wrong)
