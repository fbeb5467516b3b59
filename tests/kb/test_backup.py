"""The commands of docs/backup.md, as far as they run in the pod of the knowledge base."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.kb import scopes
from tests.kb.graph import contract, graph_files

DATA = "/var/lib/jervis"


def in_the_pod(folder: Path) -> list[list[str]]:
    """The words of each command that `kubectl exec` runs there, with its data in `folder`."""
    page = (ROOT / "docs" / "backup.md").read_text()
    lines = re.findall(r"^\$ kubectl -n jervis exec deploy/jervis-kb -- (.*?)(?: > \S+)?$", page, re.MULTILINE)
    return [shlex.split(line.replace(DATA, str(folder))) for line in lines]


async def test_a_copy_of_the_graph_is_whole_while_it_is_written(tmp_path: Path) -> None:
    copy, show, remove = in_the_pod(tmp_path)
    done = asyncio.Event()
    async with graph_files.opened(tmp_path / "graph.sqlite") as store:
        await contract.put(store, scopes.SHOP, "u:0", [("n:a0", "to", "n:b")])

        async def write() -> int:
            number = 0
            while not done.is_set():
                number += 1
                await contract.put(store, scopes.SHOP, f"u:{number}", [(f"n:a{number}", "to", "n:b")])
            return number + 1

        writing = asyncio.create_task(write())
        assert copy[0] == "python"
        process = await asyncio.create_subprocess_exec(sys.executable, *copy[1:])
        assert await process.wait() == 0
        done.set()
        written = await writing
        assert (await store.counts(scopes.SHOP)).edges == written

    process = await asyncio.create_subprocess_exec(*show, stdout=asyncio.subprocess.PIPE)
    content, _ = await process.communicate()
    restored = tmp_path / "restored"
    restored.mkdir()
    (restored / "graph.sqlite").write_bytes(content)
    assert await (await asyncio.create_subprocess_exec(*remove)).wait() == 0
    assert not [name for name in os.listdir(tmp_path) if name.startswith("graph.copy")]
    async with graph_files.opened(restored / "graph.sqlite") as again:
        found = await again.counts(scopes.SHOP)
    assert 1 <= found.documents <= written
    # Each document is there with its edge and both mentions, or not at all.
    assert (found.edges, found.mentions) == (found.documents, 2 * found.documents)
