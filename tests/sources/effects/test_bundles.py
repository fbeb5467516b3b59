"""Bundles of hostile runs: each is refused with the field, and nothing of it comes to the remote or the clone."""

from __future__ import annotations

import hashlib
import os
import uuid
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from sources.api import problems
from sources.providers.git import command, quarantine
from tests.sources.effects.pushing import Pushing, pushing

pytestmark = pytest.mark.services


@pytest_asyncio.fixture
async def place(tmp_path: Path) -> AsyncIterator[Pushing]:
    async with pushing(tmp_path) as made:
        yield made
        assert (made.pushes(), made.has(), made.left()) == (0, "", [])


async def refused(
    place: Pushing, given: Any, kind: type[problems.Invalid] | type[problems.TooLarge] = problems.Invalid
) -> str:
    with pytest.raises(kind) as caught:
        await place.push(given, uuid.uuid4().hex)
    assert caught.value.field is not None
    assert caught.value.field.startswith("arguments.bundle")
    assert caught.value.remedy
    return caught.value.message


async def test_a_bundle_that_is_cut_changed_or_of_something_else(place: Pushing) -> None:
    commit = place.work.commit()
    raw = place.work.bundle()
    for broken in (raw[:-30], raw[:-30] + b"\0" * 30, raw + b"junk"):
        assert "bundle is not taken" in await refused(place, place.arguments(commit, bundle=broken))
    assert "not of commit" in await refused(place, place.arguments("a" * 40, bundle=raw))
    given = place.arguments(commit)
    given["bundle"] = {**given["bundle"], "sha256": "0" * 64}
    assert "not what contentRef describes" in await refused(place, given)


async def test_limits(place: Pushing) -> None:
    commit = place.work.commit(files={"large": os.urandom(1 << 16), "zeros": bytes(1 << 20)})
    given = place.arguments(commit)
    place.replica("ws", quarantine.Bounds(bundle=1 << 10))
    assert "at most 1024" in await refused(place, given, problems.TooLarge)
    place.replica("ws", quarantine.Bounds(objects=2))
    assert "objects, at most 2" in await refused(place, given)
    place.replica("ws", quarantine.Bounds(unpacked=1 << 20))
    assert "at most 1048576" in await refused(place, given)


async def test_a_delta_that_would_fill_the_memory(place: Pushing) -> None:
    """Objects of 1 GiB in a pack of a few KiB."""
    work = place.work.repository
    base = bytes(1 << 16)
    blob = work.git("hash-object", "-w", "--stdin", stdin=base).decode().strip()
    large = 1 << 30
    # Copy 64 KiB from offset 0, so often that it is 1 GiB: opcode 0x80 means size 0x10000 at 0.
    copies = b"\x80" * (large >> 16)
    delta = _size(len(base)) + _size(large) + copies
    pack = packed((3, base, ""), (7, delta, blob))
    raw = b"# v2 git bundle\n" + b"a" * 40 + b" refs/heads/x\n\n" + pack
    assert "memory" in await refused(place, place.arguments("a" * 40, bundle=raw))


def packed(*objects: tuple[int, bytes, str]) -> bytes:
    """A pack of (type, bytes, the base of a delta)."""
    pack = b"PACK\0\0\0\2" + len(objects).to_bytes(4, "big")
    pack += b"".join(_head(kind, len(body)) + bytes.fromhex(base) + zlib.compress(body) for kind, body, base in objects)
    return pack + hashlib.sha1(pack).digest()


def _size(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _head(kind: int, size: int) -> bytes:
    first, size = kind << 4 | size & 15, size >> 4
    return bytes([first | (128 if size else 0)]) + (_size(size) if size else b"")


@pytest.mark.parametrize(
    ("files", "modes"),
    [
        ({b".git/config": b"[core]\n"}, {}),
        ({b".GIT": b"/etc"}, {b".GIT": "120000"}),
        ({b"a/.Git/hooks/post-checkout": b"#!/bin/sh\n"}, {}),
        ({b"git~1": b"x"}, {}),
        ({b".g\xe2\x80\x8cit/config": b"x"}, {}),
        ({b".gitmodules": b"/etc/passwd"}, {b".gitmodules": "120000"}),
        ({b".gitmodules": b'[submodule "x"]\n\tpath = x\n\turl = -u./evil\n'}, {}),
    ],
)
async def test_objects_that_harm_those_who_check_them_out(
    place: Pushing, files: dict[bytes, bytes], modes: dict[bytes, str]
) -> None:
    commit = place.work.commit(files=files, modes=modes)
    assert "Git refuses it" in await refused(place, place.arguments(commit))


@pytest.mark.parametrize(
    ("tree", "body"),
    [
        (b"100644 ..\0", b"tree %s\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx"),
        (b"100644 a/b\0", b"tree %s\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx"),
        (b"100644 a\0", b"tree %s\nauthor A 1 +0000\ncommitter A <a@b> 1 +0000\n\nx"),
        (b"100644 a\0", b"tree %s\nparent zzz\n\nx"),
    ],
)
async def test_objects_that_git_finds_faulty(place: Pushing, tree: bytes, body: bytes) -> None:
    work = place.work.repository
    blob = work.git("hash-object", "-w", "--stdin", stdin=b"x").decode().strip()
    literally = ("hash-object", "-w", "--literally", "--stdin", "-t")
    made = work.git(*literally, "tree", stdin=tree + bytes.fromhex(blob)).strip()
    commit = work.git(*literally, "commit", stdin=body % made).decode().strip()
    pack = work.git("pack-objects", "--stdout", "-q", stdin=f"{commit}\n{made.decode()}\n{blob}\n".encode())
    raw = b"# v2 git bundle\n" + f"{commit} refs/heads/fix\n\n".encode() + pack
    assert "Git refuses it" in await refused(place, place.arguments(commit, bundle=raw))


async def test_a_bundle_without_all_of_its_objects(place: Pushing) -> None:
    commit = place.work.commit()
    work = place.work.repository
    pack = work.git("pack-objects", "--stdout", "-q", stdin=f"{commit}\n".encode())
    raw = b"# v2 git bundle\n" + f"{commit} refs/heads/fix\n\n".encode() + pack
    await refused(place, place.arguments(commit, bundle=raw))
    tree = work.sha("fix^{tree}")
    pack = work.git("pack-objects", "--stdout", "-q", stdin=f"{tree}\n".encode())
    raw = b"# v2 git bundle\n" + f"{tree} refs/heads/fix\n\n".encode() + pack
    await refused(place, place.arguments(tree, bundle=raw))


async def test_what_a_forced_push_removed_does_not_come_back(place: Pushing) -> None:
    """The clone keeps it. A run that knows its ids could have it pushed, and read it at the remote."""
    older = place.remote.sha("main")
    gone = place.remote.commit("A password", {"password": b"hunter2\n" * 500})
    blob = place.remote.sha("main:password")
    copy = place.workspace.clone("uid-code")
    at = command.remote(place.remote.url, {}, plain=True, authorities="", seconds=60)
    copy.bring(at, {"main": gone}, "main")
    place.remote.point("main", older)
    place.remote.commit("Another", {"x": b"1\n"})
    copy.bring(at, {"main": place.remote.sha("main")}, "main")
    assert copy.has([gone])
    work = place.work.repository
    work.git("fetch", "-q", place.remote.url, "+refs/heads/*:refs/heads/*")
    work.git("fetch", "-q", str(copy.path), gone)
    after = place.work.commit("after", gone)
    said = await refused(place, place.arguments(after, bundle=place.work.bundle(f"{gone}..after")))
    assert f"needs commit {gone}" in said
    # A folder that names the file, without the file.
    named = place.work.commit("named", files={})
    tree = work.git("mktree", stdin=f"100644 blob {blob}\tcopy\n".encode()).decode().strip()
    named = work.git("commit-tree", tree, "-p", "main", "-m", "x").decode().strip()
    pack = work.git("pack-objects", "--stdout", "-q", stdin=f"{named}\n{tree}\n".encode())
    head = b"# v2 git bundle\n" + f"-{work.sha('main')}\n{named} refs/heads/fix\n\n".encode()
    assert f"builds on object {blob}" in await refused(place, place.arguments(named, bundle=head + pack))
    # A file that is made of it: a delta whose base is not sent.
    old = b"hunter2\n" * 500
    changed = work.git("hash-object", "-w", "--stdin", stdin=old + b"more").decode().strip()
    tree = work.git("mktree", stdin=f"100644 blob {changed}\tcopy\n".encode()).decode().strip()
    made = work.git("commit-tree", tree, "-p", "main", "-m", "x").decode().strip()
    delta = _size(len(old)) + _size(len(old) + 4) + b"\xb0\xa0\x0f" + b"\x04more"
    pack = packed(
        (1, work.git("cat-file", "commit", made), ""), (2, work.git("cat-file", "tree", tree), ""), (7, delta, blob)
    )
    head = b"# v2 git bundle\n" + f"-{work.sha('main')}\n{made} refs/heads/fix\n\n".encode()
    assert f"builds on object {blob}" in await refused(place, place.arguments(made, bundle=head + pack))
