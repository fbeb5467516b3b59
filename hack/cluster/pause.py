"""The sandbox image, written as an OCI archive by hand: one layer with one static program."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from hack.cluster import binaries, containerd, progress
from hack.cluster.layout import Layout

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def ensure(layout: Layout) -> None:
    """Import the image unless containerd has it."""
    if containerd.SANDBOX_IMAGE in containerd.images(layout):
        return
    program = binaries.program(binaries.PAUSE, "pause", progress.Progress())
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "pause.tar"
        file.write_bytes(archive(program.read_bytes(), containerd.SANDBOX_IMAGE))
        containerd.import_image(layout, file)


def archive(program: bytes, name: str) -> bytes:
    """An OCI image layout (opencontainers/image-spec, image-layout.md) as one tar."""
    layer = _tar({"pause": program}, mode=0o755)
    architecture = _MACHINES.get(platform.machine(), platform.machine())
    config = _json(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    oci = "application/vnd.oci.image"
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{oci}.manifest.v1+json",
            "config": _descriptor(f"{oci}.config.v1+json", config),
            "layers": [_descriptor(f"{oci}.layer.v1.tar", layer)],
        }
    )
    entry = {
        **_descriptor(f"{oci}.manifest.v1+json", manifest),
        "annotations": {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]},
    }
    blobs = {f"blobs/sha256/{_digest(blob)[7:]}": blob for blob in (layer, config, manifest)}
    index = _json({"schemaVersion": 2, "manifests": [entry]})
    return _tar({"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": index, **blobs}, mode=0o644)


def _tar(files: dict[str, bytes], mode: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


def _digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}
