"""What a task changed in its workspaces, as its result hands it back: as a pushed branch, or as a patch.

A workspace keeps its patch with each change (`effects.tools.checkout`), so this needs neither Git nor the clone. A
patch is stored as an artifact; `git apply` takes it in a clone at the commit that it names. Of a larger one than `MOST`
the artifact says so, and has the list of the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator_job.effects import ledger
from orchestrator_job.store import artifacts, fence, mongo

COLLECTION = "orchestrator_workspaces"
MOST = 1 << 20
"""Bytes of a patch."""
PUSH = "pushBranch"


@dataclass(frozen=True, slots=True)
class Patch:
    """All changes of a workspace since it was opened, as text of `git diff --binary`; where that cannot be made, or is
    too large, the list of the files (`git diff --stat`) and the `problem`. `files` counts them; `committed`: HEAD has
    all of them."""

    text: str
    files: int
    committed: bool
    problem: str = ""

    def stored(self) -> dict[str, Any]:
        """For the document of the workspace."""
        return {"text": self.text, "files": self.files, "committed": self.committed, "problem": self.problem}


class Patches:
    """Those of one task."""

    def __init__(
        self, database: mongo.Database, guard: fence.Fence, store: artifacts.Artifacts, book: ledger.Ledger
    ) -> None:
        self._database, self._guard, self._store, self._book = database, guard, store, book

    async def handed_back(self, round_number: int) -> list[dict[str, Any]]:
        """The field `changes` of a result, one entry for each workspace with changes: connection, branch and base that
        they are made on, files (their number), the branch `pushed` and its commit, and where not all of it was pushed
        `patch`, the key of an artifact of this round, with a note where that has only the list of the files."""
        named = ["_id", "branch", "base", "head", "patch"]
        own = {"taskUid": self._guard.task_uid}
        kept = await self._database.find(COLLECTION, own, sort=[("_id", 1)], fields=named)
        changed = [one for one in kept if (one.get("patch") or {}).get("files")]
        pushed = _pushed(await self._book.effects(round_number + 1)) if changed else {}
        return [await self._one(one, pushed, round_number) for one in changed]

    async def _one(
        self, kept: Mapping[str, Any], pushed: Mapping[str, list[tuple[str, str]]], round_number: int
    ) -> dict[str, Any]:
        connection = str(kept["_id"]).partition("/")[2]
        patch = Patch(**kept["patch"])
        pushes = pushed.get(connection, [])
        whole = next((one for one in reversed(pushes) if patch.committed and one[1] == kept["head"]), None)
        branch, commit = whole or (pushes[-1] if pushes else ("", ""))
        entry = {
            "connection": connection,
            "branch": kept["branch"],
            "base": kept["base"],
            "files": patch.files,
            "pushed": branch,
            "commit": commit,
            "patch": "",
        }
        if whole is not None:
            return entry
        onto = f"{connection}, branch {kept['branch']} at {kept['base']}"
        note = f"There is no patch: {patch.problem} At most {MOST} bytes are kept." if patch.problem else ""
        head = f"{note} These files were changed in {onto}:" if note else f"For git apply in {onto}:"
        key = await self._store.put(f"{head}\n\n{patch.text}", round_number)
        return {**entry, "patch": key, **({"note": note} if note else {})}


def _pushed(effects: Iterable[Mapping[str, Any]]) -> dict[str, list[tuple[str, str]]]:
    """Connection -> branches and their commits, oldest first, out of entries of the ledger."""
    found: dict[str, list[tuple[str, str]]] = {}
    for one in effects:
        made = (one.get("result") or {}).get("result") or {}
        if one["intent"]["tool"] == PUSH and made.get("commit"):
            found.setdefault(str(one["intent"]["connection"]), []).append((str(made.get("branch")), made["commit"]))
    return found
