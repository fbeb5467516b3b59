"""What an image stands on, its base and its Debian packages, read from its OCI archive, as components of a CycloneDX
bill of materials."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from email import parser
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from hack.cluster import errors

_STATUS, _RELEASE = "var/lib/dpkg/status", "usr/lib/os-release"


def add(archive: Path, bill: Path) -> None:
    """Write base and packages of the image in `archive` into the bill. Raises errors.Failure when it does not say
    them."""
    found = read(archive, {_STATUS, _RELEASE})
    if found.keys() != {_STATUS, _RELEASE}:
        raise errors.Failure(f"{archive.name} holds no Debian: {_STATUS} or {_RELEASE} is missing")
    content: dict[str, Any] = json.loads(bill.read_text(encoding="utf-8"))
    own = [base(labels(archive)), *components(found[_STATUS], found[_RELEASE])]
    content["components"] = [*content.get("components", []), *own]
    bill.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def labels(archive: Path) -> dict[str, str]:
    """Of the image's configuration (opencontainers/image-spec, config.md)."""
    with tarfile.open(archive) as layout:
        [entry] = json.load(_file(layout, "index.json"))["manifests"]
        described = json.load(_blob(layout, entry["digest"]))["config"]
        found: dict[str, str] = json.load(_blob(layout, described["digest"])).get("config", {}).get("Labels") or {}
    return found


def base(known: Mapping[str, str]) -> dict[str, Any]:
    """The image beneath, by the labels of `hack.image.build`. Raises errors.Failure for an image without them."""
    name, digest = (known.get(f"org.opencontainers.image.base.{key}", "") for key in ("name", "digest"))
    if not name or not digest:
        raise errors.Failure("the image does not say which base it stands on; build it by `python -m hack.image`")
    algorithm, _, content = digest.partition(":")
    return {
        "type": "container",
        "bom-ref": f"{name}@{digest}",
        "name": name,
        "version": digest,
        "hashes": [{"alg": {"sha256": "SHA-256", "sha512": "SHA-512"}[algorithm], "content": content}],
    }


def read(archive: Path, names: set[str]) -> dict[str, str]:
    """Files of the image by name, each as its topmost layer has it (opencontainers/image-spec, image-layout.md)."""
    found: dict[str, str] = {}
    with tarfile.open(archive) as layout:
        [entry] = json.load(_file(layout, "index.json"))["manifests"]
        layers = json.load(_blob(layout, entry["digest"]))["layers"]
        for described in reversed(layers):
            with tarfile.open(fileobj=_blob(layout, described["digest"])) as layer:
                for member in layer:
                    name = member.name.removeprefix("./")
                    if name in names - found.keys():
                        found[name] = _file(layer, member).read().decode()
            if found.keys() == names:
                break
    return found


def components(status: str, release: str) -> list[dict[str, Any]]:
    """The system and its installed packages, by dpkg's database and os-release; sorted by name."""
    system = dict(line.replace('"', "").split("=", 1) for line in release.splitlines() if "=" in line)
    made: list[dict[str, Any]] = [
        {
            "type": "operating-system",
            "bom-ref": f"{system['ID']}@{system['VERSION_ID']}",
            "name": system["ID"],
            "version": system["VERSION_ID"],
        }
    ]
    records = [parser.HeaderParser().parsestr(record) for record in status.split("\n\n") if record.strip()]
    for record in sorted(records, key=lambda record: (record["Package"], record["Architecture"])):
        if record["Status"] != "install ok installed":
            continue
        name, version = record["Package"], record["Version"]
        # https://github.com/package-url/purl-spec/blob/main/types/deb-definition.json
        purl = f"pkg:deb/{system['ID']}/{quote(name, safe='')}@{quote(version, safe=':')}"
        purl += f"?arch={record['Architecture']}&distro={system['ID']}-{system['VERSION_ID']}"
        made.append({"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl})
    return made


def _blob(layout: tarfile.TarFile, digest: str) -> IO[bytes]:
    return _file(layout, f"blobs/{digest.replace(':', '/')}")


def _file(archive: tarfile.TarFile, member: str | tarfile.TarInfo) -> IO[bytes]:
    opened = archive.extractfile(member)
    assert opened is not None  # the name of a file
    return opened
