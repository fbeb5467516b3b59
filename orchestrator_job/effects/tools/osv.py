"""Which packages a file of OSV records says are vulnerable.

The file is a JSON record or a list of them, JSON lines, or a ZIP of JSON files as osv.dev publishes it per ecosystem.
It is read record by record. Versions of PyPI are compared as PEP 440 says, of Go, npm and crates.io as semver.org
says; a version that neither can read counts where the record lists it. Source: https://ossf.github.io/osv-schema/
("Evaluation").
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator_job.effects.tools import lockfiles

_RECORD_BYTES = 8 << 20
_FILE_BYTES = 512 << 20
_SEMVER = re.compile(r"v?(\d{1,18})(?:\.(\d{1,18}))?(?:\.(\d{1,18}))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")


class Unreadable(Exception):  # noqa: N818  # what is answered
    """The file is missing, or no file of OSV records."""


@dataclass(frozen=True, slots=True)
class Record:
    """A vulnerability; `fixed` are the versions of the package that are free of it."""

    id: str
    summary: str
    fixed: tuple[str, ...]


def affected(file: Path, packages: Iterable[lockfiles.Package]) -> list[tuple[lockfiles.Package, Record]]:
    """The vulnerable ones, in the order of the records. Raises Unreadable."""
    wanted: dict[tuple[str, str], list[lockfiles.Package]] = {}
    for one in packages:
        wanted.setdefault((one.ecosystem, one.name), []).append(one)
    found = []
    for record in _records(file):
        if record.get("withdrawn"):
            continue
        for entry in record.get("affected", []):
            of = entry.get("package", {})
            ecosystem = str(of.get("ecosystem", "")).partition(":")[0]
            name = str(of.get("name", ""))
            key = (ecosystem, lockfiles.pypi(name) if ecosystem == "PyPI" else name)
            for package in wanted.get(key, []):
                if vulnerable(package, entry):
                    found.append((package, _record(record, entry)))
    return list(dict.fromkeys(found))


def vulnerable(package: lockfiles.Package, entry: Mapping[str, Any]) -> bool:
    """Whether an entry of `affected` means this version."""
    if package.version in entry.get("versions", []):
        return True
    own = _parsed(package.ecosystem, package.version)
    if own is None:
        return False
    for spread in entry.get("ranges", []):
        if spread.get("type") not in ("SEMVER", "ECOSYSTEM"):
            continue
        inside = False
        events = [(kind, value) for event in spread.get("events", []) for kind, value in event.items()]
        known = [(_zero(package.ecosystem, value), kind) for kind, value in events if kind != "limit"]
        for version, kind in sorted((one for one in known if one[0] is not None), key=lambda one: one[0]):
            if kind == "introduced" and version <= own:
                inside = True
            elif (kind == "fixed" and version <= own) or (kind == "last_affected" and version < own):
                inside = False
        if inside:
            return True
    return False


def _zero(ecosystem: str, version: str) -> Any:
    """As a version; `0` of a range is before all others."""
    return _parsed(ecosystem, "0.0.0-0" if version == "0" and ecosystem != "PyPI" else version)


def _parsed(ecosystem: str, version: str) -> Any:
    if ecosystem == "PyPI":
        from packaging import version as pep440

        try:
            # A release candidate of 0 would be before `0`, which begins all ranges.
            return pep440.Version("0.dev0" if version == "0" else version)
        except pep440.InvalidVersion:
            return None
    found = _SEMVER.fullmatch(version)
    if found is None:
        return None
    numbers = tuple(int(found[number] or 0) for number in (1, 2, 3))
    # A version is after its own previews; numbers are before words (semver.org, 11).
    preview = [
        (0, int(one), "") if one.isdigit() and len(one) < 19 else (1, 0, one) for one in (found[4] or "").split(".")
    ]
    return (numbers, 0, tuple(preview)) if found[4] else (numbers, 1, ())


def _record(record: Mapping[str, Any], entry: Mapping[str, Any]) -> Record:
    events = [event for spread in entry.get("ranges", []) for event in spread.get("events", [])]
    fixed = tuple(dict.fromkeys(str(one["fixed"]) for one in events if "fixed" in one))[:10]
    summary = str(record.get("summary") or record.get("details") or "").strip()
    return Record(str(record.get("id", "")), " ".join(summary.split())[:200], fixed)


def _records(file: Path) -> Iterator[Mapping[str, Any]]:
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                for one in archive.infolist():
                    if one.filename.endswith(".json") and one.file_size <= _RECORD_BYTES:
                        yield from _listed(json.loads(archive.read(one)))
        elif file.stat().st_size > _FILE_BYTES:
            raise Unreadable(f"it has more than {_FILE_BYTES} bytes; mount it as a ZIP of JSON files")
        else:
            with file.open("rb") as opened:
                yield from _plain(opened.read())
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError, RecursionError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}"[:300]) from error


def _plain(raw: bytes) -> Iterator[Mapping[str, Any]]:
    try:
        yield from _listed(json.loads(raw))
    except json.JSONDecodeError:
        for line in raw.splitlines():
            if line.strip():
                yield from _listed(json.loads(line))


def _listed(found: Any) -> Iterator[Mapping[str, Any]]:
    for one in found if isinstance(found, list) else [found]:
        if isinstance(one, dict):
            yield one
