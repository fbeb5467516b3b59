"""Which objects the branches of a clone reach.

A clone has more: what a forced push removed stays in it. Git itself does not ask: upload-pack with protocol v2 gives
any object by its id, and a pack that is pushed may build on any. Source: git-upload-pack(1), gitprotocol-v2(5) "fetch".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from sources.providers.git import command

_SECONDS = 300.0
Watch = Callable[[], str] | None


def lacking(
    clone: Path,
    tips: Sequence[str],
    ids: Iterable[str],
    *,
    near: Sequence[str] = (),
    seconds: float = _SECONDS,
    watch: Watch = None,
) -> list[str]:
    """Those of `ids` that no commit of `tips` reaches, in their order. Whether a commit does is found in its history;
    for files and folders all objects are walked, as for a clone, those of the commits `near` first. Blocks, until
    `watch` says why not. Raises `command.Failed`."""
    asked = [one for one in dict.fromkeys(ids) if one not in set(tips)]
    if not asked:
        return []
    kinds = command.local(
        clone, "cat-file", "--batch-check=%(objecttype)", stdin="".join(f"{one}\n" for one in asked).encode()
    ).splitlines()
    commits = [one for one, kind in zip(asked, kinds, strict=True) if kind == b"commit"]
    others = {one for one, kind in zip(asked, kinds, strict=True) if kind in (b"tree", b"blob")}
    odd = set(asked) - set(commits) - others
    if commits:
        said = command.local(
            clone, "rev-list", "--stdin", stdin=_revisions(commits, tips), seconds=seconds, watch=watch
        )
        odd |= set(commits) & set(said.decode("ascii").split())
    for some, alone in ((near, ("--no-walk",)), (tips, ())):
        if others and some:
            others = _unseen(clone, some, alone, others, seconds, watch)
    odd |= others
    return [one for one in asked if one in odd]


def fresh(
    clone: Path, tips: Sequence[str], commit: str, *, seconds: float = _SECONDS, watch: Watch = None
) -> list[str]:
    """The objects that come with a commit to what `tips` reach; a few that they reach may be among them. Raises
    `command.Failed` where one is missing."""
    said = command.local(
        clone, "rev-list", "--objects", "--no-object-names", "--stdin", stdin=_revisions([commit], tips),
        seconds=seconds, watch=watch,
    )  # fmt: skip
    return said.decode("ascii").split()


def _unseen(
    clone: Path, start: Sequence[str], more: tuple[str, ...], ids: Collection[str], seconds: float, watch: Watch
) -> set[str]:
    left = set(ids)
    words = ("rev-list", "--objects", "--no-object-names", *more, "--stdin")
    # Line by line: a large repository has millions of objects.
    with command.lines(clone, *words, stdin=_revisions(start), seconds=seconds, watch=watch) as found:
        for line in found:
            left.discard(line.decode("ascii").rstrip("\n"))
            if not left:
                break
    return left


def _revisions(start: Sequence[str], without: Sequence[str] = ()) -> bytes:
    return "".join([*(f"{one}\n" for one in start), *(f"^{one}\n" for one in without)]).encode()
