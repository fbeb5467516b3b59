"""From buildah's storage into the local cluster's containerd, moving only the layers that it lacks."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from hack.cluster import containerd, errors
from hack.cluster.layout import Layout
from hack.image.store import Store


def load(store: Store, image: str, layout: Layout) -> int:
    """Make `image` usable by pods; how many bytes were moved. Raises errors.Failure when containerd refuses it."""
    exported = store.layouts / image.rpartition("/")[2].replace(":", "-")
    exported.parent.mkdir(parents=True, exist_ok=True)
    index = exported / "index.json"
    index.unlink(missing_ok=True)  # it would list earlier builds too; the blobs stay
    store.buildah("push", "-q", "--disable-compression", "--format", "oci", image, f"oci:{exported}:latest", quiet=True)
    needed = _blobs(exported)
    _drop_others(exported, needed)
    missing = [digest for digest in needed if digest not in containerd.contents(layout)]
    return _import(layout, exported, image, missing)


def _import(layout: Layout, exported: Path, image: str, blobs: list[str]) -> int:
    content = json.loads((exported / "index.json").read_text())
    content["manifests"][0]["annotations"] = {"io.containerd.image.name": image}
    (exported / "index.json").write_text(json.dumps(content))
    command = containerd.import_command(layout, "-")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stderr is not None
        moved = 0
        try:
            with tarfile.open(fileobj=child.stdin, mode="w|") as archive:
                for name in ("oci-layout", "index.json", *(f"blobs/sha256/{digest[7:]}" for digest in blobs)):
                    archive.add(exported / name, arcname=name)
                    moved += (exported / name).stat().st_size
            child.stdin.close()
        except BrokenPipeError:  # it gave up reading; why is in its last words
            moved = 0
        words = child.stderr.read().decode(errors="replace")
    if child.returncode != 0:
        raise errors.Failure(f"containerd refused {image}: {words.strip()[-400:]}")
    return moved


def _blobs(exported: Path) -> list[str]:
    """Digests of manifest, configuration and layers."""
    manifest_digest: str = json.loads((exported / "index.json").read_text())["manifests"][0]["digest"]
    manifest: dict[str, Any] = json.loads((exported / "blobs/sha256" / manifest_digest[7:]).read_text())
    return [manifest_digest, manifest["config"]["digest"], *(layer["digest"] for layer in manifest["layers"])]


def _drop_others(exported: Path, needed: list[str]) -> None:
    """Layers of earlier builds."""
    keep = {digest[7:] for digest in needed}
    for blob in (exported / "blobs/sha256").iterdir():
        if blob.name not in keep:
            blob.unlink()
