"""From buildah's storage into the local cluster's containerd, moving only the layers that it lacks.

buildah compresses every layer each time it exports one, unless the target has the plain layer already. So the large
ones (they change with the lock files) are laid out plain once; after a change of code only its small layers move.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from hack.cluster import containerd, errors
from hack.cluster.layout import Layout
from hack.image.store import Store

_LARGE = 4 << 20  # bytes; compressing less than this costs nothing worth avoiding
_TRIES = 3


@dataclass(frozen=True)
class _Exported:
    """An OCI layout on disk (opencontainers/image-spec, image-layout.md)."""

    directory: Path

    @property
    def index(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.directory / "index.json").read_text())
        return found

    def blob(self, digest: str) -> Path:
        return self.directory / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def digests(self) -> list[str]:
        """Of manifest, configuration and layers; none before the first export."""
        if not (self.directory / "index.json").exists():
            return []
        manifest_digest: str = self.index["manifests"][0]["digest"]
        manifest = json.loads(self.blob(manifest_digest).read_text())
        return [manifest_digest, manifest["config"]["digest"], *(layer["digest"] for layer in manifest["layers"])]


def load(store: Store, image: str, layout: Layout) -> int:
    """Make `image` usable by pods; how many bytes were moved. Raises errors.Failure when containerd refuses it."""
    manifest = store.manifest(image)
    exported = _Exported(store.layouts / image.rpartition("/")[2].replace(":", "-"))
    held_manifest = containerd.images(layout).get(image)
    if held_manifest is not None and exported.digests()[:2] == [held_manifest, manifest["config"]["digest"]]:
        return 0
    _lay_out_large(store, image, exported, manifest["layers"])
    (exported.directory / "index.json").unlink(missing_ok=True)  # it would list the earlier build too
    target = f"oci:{exported.directory}:latest"
    store.buildah("push", "-q", "--format", "oci", image, target, quiet=True)
    _drop_others(exported)
    tries = 0
    while True:
        tries += 1
        held = containerd.contents(layout)
        try:
            return _import(layout, exported, image, [digest for digest in exported.digests() if digest not in held])
        except errors.Failure as failure:
            # Its garbage collector may take what an earlier build has left in just this moment, blobs or snapshots.
            if tries == _TRIES or "not found" not in str(failure):
                raise


def _lay_out_large(store: Store, image: str, exported: _Exported, layers: list[dict[str, Any]]) -> None:
    """Write the large layers that the layout lacks, plain, reading them from a docker archive as it is made."""
    exported.blob("").mkdir(parents=True, exist_ok=True)
    lacking = {layer["digest"].removeprefix("sha256:") for layer in layers if layer["size"] >= _LARGE}
    lacking = {name for name in lacking if not exported.blob(name).exists()}
    if not lacking:
        return
    with tempfile.TemporaryDirectory(dir=exported.directory) as scratch:
        pipe = Path(scratch) / "archive"
        os.mkfifo(pipe)
        with (
            store.start("push", "-q", image, f"docker-archive:{pipe}") as child,
            _opened(pipe, child) as stream,
            tarfile.open(fileobj=stream, mode="r|") as archive,
        ):
            for member in archive:
                name = member.name.removesuffix(".tar")
                content = archive.extractfile(member) if name in lacking else None
                if content is not None:
                    unfinished = Path(scratch) / name
                    with unfinished.open("wb") as file:
                        shutil.copyfileobj(content, file, 1 << 20)
                    unfinished.rename(exported.blob(name))
        if child.returncode != 0:
            raise errors.Failure(f"buildah could not export {image}; see above")


def _opened(pipe: Path, writer: subprocess.Popen[bytes]) -> BinaryIO:
    """The pipe's reading end, once the writer has begun.

    Raises errors.Failure when it ends before that (a plain open would wait for ever).
    """
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    while not select.select([descriptor], [], [], 0.1)[0]:
        if writer.poll() is not None:
            os.close(descriptor)
            raise errors.Failure("buildah could not export the image; see above")
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "rb")


def _import(layout: Layout, exported: _Exported, image: str, blobs: list[str]) -> int:
    index = exported.index
    index["manifests"][0]["annotations"] = {"io.containerd.image.name": image}
    (exported.directory / "index.json").write_text(json.dumps(index))
    files = [exported.directory / "oci-layout", exported.directory / "index.json", *map(exported.blob, blobs)]
    with tempfile.TemporaryFile() as words:
        command = containerd.import_command(layout, "-")
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=words) as child:
            assert child.stdin is not None  # PIPE above
            try:
                with tarfile.open(fileobj=child.stdin, mode="w|") as archive:
                    for file in files:
                        archive.add(file, arcname=str(file.relative_to(exported.directory)))
                child.stdin.close()
            except BrokenPipeError:  # it stopped reading; its last words and its exit status say why
                child.wait()
        words.seek(0)
        if child.returncode != 0:
            raise errors.Failure(f"containerd refused {image}: {words.read().decode(errors='replace').strip()[-400:]}")
    return sum(file.stat().st_size for file in files)


def _drop_others(exported: _Exported) -> None:
    """Layers of earlier builds."""
    keep = {exported.blob(digest) for digest in exported.digests()}
    for blob in exported.blob("").iterdir():
        if blob not in keep:
            blob.unlink()
