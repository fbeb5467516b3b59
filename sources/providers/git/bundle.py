"""A Git bundle: the commits that it begins behind, what it has, and a pack. Source: gitformat-bundle(5), version 2."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sources.api import problems

FIELD = "arguments.bundle"
MOST_LINES = 1000
"""Of its head."""
_LINE_BYTES = 4096
_SIGNATURE = b"# v2 git bundle\n"
_NEEDS = re.compile(rb"-([0-9a-f]{40})(?: .*)?", re.DOTALL)
_HAS = re.compile(rb"([0-9a-f]{40}) [^ \0]+", re.DOTALL)
_PACK_HEAD = 12


@dataclass(frozen=True, slots=True)
class Bundle:
    """`needs` are commits that its receiver has to have, `has` those that it is of; `pack` has `count` objects."""

    needs: tuple[str, ...]
    has: frozenset[str]
    pack: bytes
    count: int


def parse(raw: bytes) -> Bundle:
    """Nothing of the pack is looked at. Raises `problems.Invalid`."""
    if not raw.startswith(_SIGNATURE):
        raise invalid("it is no Git bundle of version 2", "Make it with `git bundle create FILE OLD..BRANCH`.")
    needs, has, at = list[str](), set[str](), len(_SIGNATURE)
    for _ in range(MOST_LINES):
        end = raw.find(b"\n", at, at + _LINE_BYTES)
        line, at = raw[at : max(end, at)], end + 1
        if end < 0:
            raise invalid("its head breaks off")
        if not line:
            break
        if need := _NEEDS.fullmatch(line):
            needs.append(need[1].decode("ascii"))
        elif one := _HAS.fullmatch(line):
            has.add(one[1].decode("ascii"))
        else:
            raise invalid("a line of its head is neither a commit that it needs nor a ref")
    else:
        raise invalid(f"its head has more than {MOST_LINES} lines", "Name one branch, and what it grew from.")
    pack = raw[at:]
    if len(pack) < _PACK_HEAD or pack[:8] != b"PACK\0\0\0\2":
        raise invalid("it has no pack of version 2")
    return Bundle(tuple(dict.fromkeys(needs)), frozenset(has), pack, int.from_bytes(pack[8:_PACK_HEAD], "big"))


def invalid(why: str, remedy: str = "Make it again, and store it as a new content.") -> problems.Invalid:
    """The error about the bundle of a request."""
    return problems.Invalid(f"the bundle is not taken: {why}", field=FIELD, remedy=remedy)
