"""The page "Your first task" says the truth: its commands are executed, and marked output is compared."""

from __future__ import annotations

from tests import console
from tests.conftest import ROOT
from tests.e2e.conftest import NAMESPACE
from tests.e2e.site import Site

PAGE = ROOT / "docs" / "first-task.md"


def test_every_command_prints_what_the_page_says(site: Site) -> None:
    page = PAGE.read_text()
    environment = {"DEMO_NAMESPACE": NAMESPACE, "KUBECONFIG": site.wanted.kubeconfig}
    with console.shell(site.wanted.checkout, environment) as shell:
        wrong = console.wrong(shell, page)
    assert not wrong, "\n".join(wrong)
