"""`kubectl get --watch` as a stream of tasks that survives a watch which ends."""

from __future__ import annotations

import codecs
import json
import queue
import subprocess
import threading
import time
from collections.abc import Iterator

from crds import pendingtask
from hack.demo.kubectl import Kubectl

_PAUSE = 0.5  # between two watches, when the apiserver is away
_CHUNK = 65536


def tasks(kubectl: Kubectl, selector: str, deadline: float) -> Iterator[pendingtask.PendingTask | None]:
    """Every seen state of the selected tasks until `deadline` (of time.monotonic); None each second without news.

    A watch that ends is begun anew and shows each task's present state again, so a state may come twice.
    """
    while time.monotonic() < deadline:
        with subprocess.Popen(
            kubectl.command("get", "pendingtasks", "-l", selector, "--watch", "-o", "json"),
            env=kubectl.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as watch:
            try:
                yield from _read(watch, deadline)
            finally:
                watch.kill()
        time.sleep(_PAUSE)
        yield None


def _read(watch: subprocess.Popen[bytes], deadline: float) -> Iterator[pendingtask.PendingTask | None]:
    pieces: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_pump, args=(watch, pieces), daemon=True).start()
    characters, decoder, buffer = codecs.getincrementaldecoder("utf-8")(), json.JSONDecoder(), ""
    while time.monotonic() < deadline:
        try:
            piece = pieces.get(timeout=1)
        except queue.Empty:
            yield None
            continue
        if not piece:
            return
        buffer += characters.decode(piece)
        while buffer := buffer.lstrip():
            try:
                found, end = decoder.raw_decode(buffer)
            except json.JSONDecodeError:  # the rest of the object is still on its way
                break
            buffer = buffer[end:]
            yield pendingtask.PendingTask.model_validate(found)


def _pump(watch: subprocess.Popen[bytes], pieces: queue.SimpleQueue[bytes]) -> None:
    assert watch.stdout is not None
    while piece := watch.stdout.read1(_CHUNK):  # type: ignore[attr-defined]  # typeshed: IO lacks BufferedReader.read1
        pieces.put(piece)
    pieces.put(b"")
