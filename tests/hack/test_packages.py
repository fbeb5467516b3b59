"""The Debian packages of an image in the bill of materials."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from hack.cluster import errors
from hack.image import packages

RELEASE = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nID=debian\n'
STATUS = """\
Package: zlib1g
Status: install ok installed
Architecture: amd64
Version: 1:1.2.13.dfsg-1+b1
Description: compression library
 Package: none, this is a description

Package: git
Status: deinstall ok config-files
Architecture: amd64
Version: 1:2.39.5-0+deb12u2

Package: adduser
Status: install ok installed
Architecture: all
Version: 3.134
"""


def packed(files: dict[str, str]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return made.getvalue()


BASE = {
    "org.opencontainers.image.base.name": "docker.io/library/python:3.11-slim",
    "org.opencontainers.image.base.digest": f"sha256:{'5' * 64}",
}


def archived(place: Path, *layers: bytes, labels: dict[str, str] = BASE) -> Path:
    """An OCI archive of the layers, the first one at the bottom."""
    blobs = {_digest(layer): layer for layer in layers}
    config = json.dumps({"config": {"Labels": labels}}).encode()
    parts = {"layers": [{"digest": digest} for digest in blobs], "config": {"digest": _digest(config)}}
    manifest = json.dumps(parts).encode()
    digest = _digest(manifest)
    blobs |= {digest: manifest, _digest(config): config}
    files = {f"blobs/{name.replace(':', '/')}": content for name, content in blobs.items()}
    files["index.json"] = json.dumps({"manifests": [{"digest": digest}]}).encode()
    with tarfile.open(place / "image.oci.tar", "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return place / "image.oci.tar"


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def bill(place: Path) -> Path:
    path = place / "bill.json"
    path.write_text(json.dumps({"bomFormat": "CycloneDX", "components": [{"name": "httpx", "type": "library"}]}))
    return path


def test_installed_packages_follow_the_libraries(tmp_path: Path) -> None:
    base = packed({"./var/lib/dpkg/status": STATUS, "./usr/lib/os-release": RELEASE})
    written = bill(tmp_path)
    packages.add(archived(tmp_path, gzip.compress(base), packed({"app/main.py": ""})), written)
    library, base_image, system, *debian = json.loads(written.read_text())["components"]
    assert library["name"] == "httpx"
    assert (base_image["type"], base_image["name"]) == ("container", "docker.io/library/python:3.11-slim")
    assert base_image["hashes"] == [{"alg": "SHA-256", "content": "5" * 64}]
    assert (system["type"], system["name"], system["version"]) == ("operating-system", "debian", "12")
    assert [(one["name"], one["version"], one["purl"]) for one in debian] == [
        ("adduser", "3.134", "pkg:deb/debian/adduser@3.134?arch=all&distro=debian-12"),
        ("zlib1g", "1:1.2.13.dfsg-1+b1", "pkg:deb/debian/zlib1g@1:1.2.13.dfsg-1%2Bb1?arch=amd64&distro=debian-12"),
    ]
    assert len({one["bom-ref"] for one in (system, *debian)}) == 3


def test_the_topmost_list_counts(tmp_path: Path) -> None:
    base = packed({"var/lib/dpkg/status": STATUS, "usr/lib/os-release": RELEASE})
    above = packed({"var/lib/dpkg/status": STATUS.partition("\n\n")[0]})
    written = bill(tmp_path)
    packages.add(archived(tmp_path, base, above), written)
    names = [one["name"] for one in json.loads(written.read_text())["components"]]
    assert names == ["httpx", "docker.io/library/python:3.11-slim", "debian", "zlib1g"]


def test_an_image_that_does_not_say_its_base_is_refused(tmp_path: Path) -> None:
    layer = packed({"var/lib/dpkg/status": STATUS, "usr/lib/os-release": RELEASE})
    written = bill(tmp_path)
    with pytest.raises(errors.Failure, match="which base"):
        packages.add(archived(tmp_path, layer, labels={}), written)


def test_an_image_without_packages_is_named(tmp_path: Path) -> None:
    written = bill(tmp_path)
    with pytest.raises(errors.Failure, match=r"image\.oci\.tar holds no Debian"):
        packages.add(archived(tmp_path, packed({"app/main.py": ""})), written)
    assert len(json.loads(written.read_text())["components"]) == 1
