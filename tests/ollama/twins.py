"""Two servers with models of the same names: Ollama's own program, and the simulator of it. Both are asked, and told to
break, in the same way; what is seen of an answer leaves out what a model wrote and how long it took.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from router.backends import verdict
from tests import ports
from tests.fakes.ollama import process
from tests.ollama import gguf
from tests.waiting import PATIENCE, eventually

SPEAKER, OTHER, TOOLS, EMBEDDER = "speaker", "other", "tooled", "embedder"
CONTEXT = 4096
OPTIONS = {"seed": 7, "temperature": 0, "num_predict": 12, "num_thread": 1}
ENDLESS = {"seed": 7, "num_predict": -1, "num_thread": 1}

# Ollama calls a model one with tools by the names in its template.
TOOLED = "{{ range .Tools }}{{ .Function }}{{ end }}{{ range .Messages }}{{ .Content }}{{ .ToolCalls }}{{ end }}"
ONE_AT_A_TIME = {"MAX_QUEUE": "1", "NUM_PARALLEL": "1", "MAX_LOADED_MODELS": "1", "NO_CLOUD": "1"}
"""Settings of the program."""
_COUNTS = {"total_duration", "load_duration", "prompt_eval_duration", "eval_duration", "prompt_eval_count",
           "eval_count", "usage"}  # fmt: skip
_UNREAD = {"context", "tensors", "parameters"}
"""Fields that nothing of ours reads, and the simulator does not have."""
# The ends of sentences that are Go's own, and an address.
_ENDS = re.compile(r" of type .*|(?<=invalid character '.').*|(?<=base64 data).*|(?<=127.0.0.1):\d+", re.DOTALL)


@dataclass(frozen=True)
class Seen:
    """An answer. `records` are its parts without repetitions: an error's words, or a document's fields and reasons."""

    status: int
    media: str = ""
    allowed: frozenset[str] = frozenset()
    records: tuple[object, ...] = ()
    whole: bool = True
    """Whether it ended as HTTP says; otherwise the connection broke off."""
    judged: verdict.Verdict | None = None
    crashed: bool = False


@dataclass
class Real:
    """Ollama's program."""

    http: httpx.AsyncClient
    program: subprocess.Popen[bytes]
    log: Path

    def faults(self, *documents: Mapping[str, Any]) -> None:
        """Faults of the simulator that stand for what the real server is told by signals."""

    def kill(self) -> None:
        """End the server with SIGKILL."""
        left = children(self.program.pid)
        self.program.kill()
        self.program.wait()
        for runner in left:  # it would go on for ever
            os.kill(runner, signal.SIGKILL)

    def end_runner(self) -> None:
        """End the runner in the same way."""
        os.kill(self.runner(), signal.SIGKILL)

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """The runner does nothing meanwhile; in a simulator an answer that is `stalled` waits."""
        runner = self.runner()
        os.kill(runner, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(runner, signal.SIGCONT)

    def go_on(self) -> None:
        """Answers that are held go on."""

    def asked(self) -> int:
        """How many requests have come as far as the runner."""
        return self.log.read_text(errors="replace").count('msg="completion request"')

    async def waits(self, asked: int) -> None:
        """Return when one more than `asked` has, and waits for the slot of the model."""
        await eventually(self.asked, good=lambda seen: seen > asked)

    async def works(self) -> None:
        """Return when the runner has been busy for a while with a request that shows nothing of it."""
        before = self._ticks()
        await eventually(self._ticks, good=lambda count: count > before + 20)

    def loads(self) -> int:
        """How often a runner has been told to load its model."""
        return self.log.read_text(errors="replace").count("msg=load request=")

    def runner(self) -> int:
        """The one child of the program."""
        [child] = children(self.program.pid)
        return child

    def _ticks(self) -> int:
        """Hundredths of a second that the runner has computed; 0 without one."""
        spent = [stat.split()[11:13] for child in children(self.program.pid) if (stat := _stat(child))]
        return sum(int(part) for parts in spent for part in parts)


@dataclass
class Simulated:
    """The simulator."""

    http: httpx.AsyncClient
    fake: process.Fake
    always: Sequence[Mapping[str, Any]] = ({"match": {"model": SPEAKER}, "engine": "noTools"},)

    def faults(self, *documents: Mapping[str, Any]) -> None:
        self.fake.set_faults([*documents, *self.always])

    def kill(self) -> None:
        self.fake.kill()

    def end_runner(self) -> None:
        [loaded] = self.fake.state()["loaded"]
        self.fake.end_runner(loaded["model"])

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.go_on()

    def go_on(self) -> None:
        self.fake.open_gate("hold")
        self.fake.shut_gate("hold")

    def asked(self) -> int:
        return 0

    async def waits(self, asked: int) -> None:
        await eventually(lambda: [runner["waiting"] for runner in self.fake.state()["loaded"]] == [1])

    async def works(self) -> None: ...


Server = Real | Simulated
"""One of the two."""


def children(parent: int) -> list[int]:
    """The processes that this one has started and that have not ended."""
    listed = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    stats = {each: _stat(each).split() for each in listed}
    return [each for each, stat in stats.items() if stat[1:2] == [str(parent)] and stat[0] != "Z"]


def _stat(number: int) -> str:
    """/proc/PID/stat from the state on; empty for a process that is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1]
    return ""


@contextlib.contextmanager
def program(path: str, home: Path, settings: Mapping[str, str]) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Ollama's program with its store and its log below `home`, until the end of the block: its address and process."""
    address = f"127.0.0.1:{ports.free()}"
    environment = {f"OLLAMA_{name}": value for name, value in settings.items()}
    environment |= {"HOME": str(home), "OLLAMA_HOST": address, "PATH": os.environ["PATH"]}
    with (home / "log").open("ab") as log:
        server = subprocess.Popen([path, "serve"], env=environment, stderr=log, stdout=log)
        try:
            transport = httpx.HTTPTransport(retries=20)
            with httpx.Client(base_url=f"http://{address}", transport=transport, trust_env=False, verify=False) as http:
                http.get("/api/version").raise_for_status()
            yield f"http://{address}", server
        finally:
            runners = children(server.pid)
            server.terminate()
            server.wait(PATIENCE)
            for runner in runners:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(runner, signal.SIGKILL)


def make(url: str, name: str, file: bytes, **more: Any) -> None:
    """Add a model to a real server."""
    digest = f"sha256:{hashlib.sha256(file).hexdigest()}"
    body = {"model": name, "files": {"tiny.gguf": digest}, "stream": False, **more}
    with httpx.Client(base_url=url, timeout=PATIENCE, trust_env=False, verify=False) as http:
        assert http.post(f"/api/blobs/{digest}", content=file).status_code == 201
        made = http.post("/api/create", json=body)
        assert made.json() == {"status": "success"}, made.text


def fill(url: str) -> None:
    """Add the models of these tests to a real server."""
    make(url, SPEAKER, gguf.tiny(3, context=CONTEXT))
    make(url, OTHER, gguf.tiny(5, context=CONTEXT))
    make(url, TOOLS, gguf.tiny(6, context=CONTEXT), template=TOOLED)
    make(url, EMBEDDER, gguf.tiny(4, context=CONTEXT, embeds=True))


@contextlib.contextmanager
def simulator() -> Iterator[process.Fake]:
    """The simulator with the same models and settings."""
    models = [{"name": f"{name}:latest", "contextLength": CONTEXT} for name in (SPEAKER, OTHER, TOOLS)]
    # It takes a model for one of vectors by its name.
    models.append({"name": f"{EMBEDDER}:latest", "contextLength": 256})
    with process.running(
        models=models, kind="cpu", max_queue=1, max_loaded_models=1, default_window_counts=True
    ) as fake:
        yield fake


async def ask(
    server: Server, method: str, path: str, body: object = None, during: Callable[[], Awaitable[None]] | None = None
) -> Seen:
    """What is seen of the answer. `during` is done when its first line is there."""
    content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    lines: list[str] = []
    whole = True
    async with server.http.stream(method, path, content=content) as answer:
        try:
            async for line in answer.aiter_lines():
                lines.append(line)
                if during is not None and len(lines) == 1:
                    await during()
        except (httpx.RemoteProtocolError, httpx.ReadError):
            whole = False
    status, media = answer.status_code, answer.headers.get("Content-Type", "")
    raw = "\n".join(lines).encode()
    records = tuple(_records(lines)) if "text/plain" not in media else tuple(lines)
    allowed = frozenset(answer.headers.get("Allow", "").replace(",", " ").split())
    judged = verdict.of(status, raw, model=True)
    return Seen(status, media, allowed, records, whole, judged, verdict.crashed(raw))


def _records(lines: Sequence[str]) -> Iterator[object]:
    last: object = None
    for text in filter(None, (line.removeprefix("data: ") for line in lines)):
        record = text if text == "[DONE]" else _described(json.loads(text))
        if record != last:
            yield record
        last = record


def _described(document: Any) -> object:
    if not isinstance(document, dict):
        return type(document).__name__
    error = document.get("error")
    if isinstance(error, dict):
        return {**error, "message": _ENDS.sub("", error["message"])}
    if error is not None:
        return _ENDS.sub("", error)
    shown: dict[str, object] = {"fields": sorted(document.keys() - _COUNTS - _UNREAD), "counts": _counted(document)}
    shown |= {name: document[name] for name in ("done", "done_reason") if name in document}
    if isinstance(document.get("embeddings"), list):
        shown["vectors"] = len(document["embeddings"])
    for choice in document.get("choices", ()):
        shown |= {"choice": sorted(choice), "reason": choice["finish_reason"], "named": bool(document["model"])}
    if isinstance(message := document.get("message"), dict):
        shown["message"] = sorted(message)
    return shown


def _counted(document: Mapping[str, Any]) -> bool:
    return bool(document.keys() & _COUNTS)


async def memory(server: Server) -> list[tuple[str, int]]:
    """The models that /api/ps lists, each with its context, which differs between models of vectors."""
    listed = (await server.http.get("/api/ps")).json()["models"]
    names = [(model["name"], model["context_length"]) for model in listed]
    return [(name, 0 if name.startswith(EMBEDDER) else context) for name, context in names]


@contextlib.asynccontextmanager
async def client(url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client that waits for a server on two busy cores."""
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False, verify=False) as http:
        yield http
