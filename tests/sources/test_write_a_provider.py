"""sources/README.md: its provider runs as it stands there, and its commands read a source with a provider alone."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from clients import tls_trust
from sources.providers import __main__ as program
from sources.providers import table
from tests.conftest import ROOT
from tests.sources.forge import Forge

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
README = (ROOT / "sources" / "README.md").read_text()


def block(language: str) -> str:
    [found] = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return str(found)


async def run(*words: str, folder: Path) -> tuple[int | None, str, str]:
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, said = await running.communicate()
    return running.returncode, out.decode(), said.decode()


async def test_the_provider_of_the_page_runs(tmp_path: Path) -> None:
    assert await run("-c", block("python"), folder=tmp_path) == (0, "['Water the plants', 'Pay the rent']\n[]\n", "")


async def test_the_commands_of_the_page_read_a_source(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "token").write_text("t0k3n-of-the-test\n")
    quick = ("--plaintext", "--requests-per-minute", "6000")
    outputs: list[list[dict[str, Any]]] = []
    async with Forge().serving() as host:
        host.create("Login fails", body="After the update.")
        host.tick(3600)
        for command in block("sh").splitlines():
            python, *words = shlex.split(command.replace("https://git.example", host.url))
            assert python == "python"
            code, out, said = await run(*words, *quick, folder=tmp_path)
            assert (code, said) == (0, "")
            assert "t0k3n" not in out
            outputs.append([json.loads(line) for line in out.splitlines()])
        [read, places] = outputs
        assert [line["item"]["urn"] for line in read if "item" in line] == ["gitlab::acme/shop#1"]
        assert places == [{"place": "acme/shop#1"}]
        cursor = json.dumps(read[-1]["cursor"])
        url, secret = f"{host.url}/acme/shop", ("--secret", "secret", *quick)
        again = ("-m", "sources.providers", "GitLab", url, *secret, "--cursor", cursor)
        code, out, _ = await run(*again, folder=tmp_path)
        assert (code, '"item"' in out) == (0, False)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["GitLab", "https://git.example/a/b"], 1, "The Secret lacks 'token'"),
        (["GitLab", "http://git.example/a/b", "--secret", "secret"], 1, "Over http://"),
        (["GitLab", "https://git.example/a/b", "--secret", "absent"], 2, "absent"),
        (["GitLab", "https://git.example/a/b", "--cursor", "no JSON", "--secret", "secret"], 2, "Expecting value"),
    ],
)
def test_what_cannot_be_read_is_said(
    words: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "token").write_text("t0k3n")
    monkeypatch.chdir(tmp_path)
    assert program.main(words) == code
    assert said in capsys.readouterr().err


def test_the_program_has_every_type_that_is_opened_by_a_url() -> None:
    opens = table.table(plain=False, tls=tls_trust.context(), monotonic=time.monotonic, wall=lambda: NOW)
    assert set(program.TYPES) == {kind.value for kind in opens}
