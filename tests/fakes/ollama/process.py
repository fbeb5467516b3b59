"""Start the simulator as a process of its own, use it, stop it: for pytest fixtures and benchmarks.

with process.running(models=["qwen2.5:7b"], num_parallel=2) as fake:
    httpx.get(fake.url + "/api/tags")
    assert fake.count(path="/api/chat") == 0
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests import waiting
from tests.nursery import children

Flag = str | int | float | Sequence[Any] | Mapping[str, Any]


class Fake:
    """A running simulator. `url` has no trailing slash; every method talks to its `/simulator/*` interface."""

    def __init__(self, url: str, process: children.Child, log: Path) -> None:
        self.url = url
        self.pid = process.pid
        self.log = log
        self._process = process
        # trust_env off: a proxy of the machine must never come between a test and loopback. verify off: there is no TLS
        # here, and reading the machine's certificates would be most of the cost of a client.
        self._http = httpx.Client(base_url=url, timeout=waiting.PATIENCE, trust_env=False, verify=False)

    def requests(self, **match: str) -> list[dict[str, Any]]:
        """What was asked, oldest first: {seq, path, model, tag, priority, headers, body, status, outcome, tokens,
        granted ...}.

        `match` narrows by equal fields, for example `requests(path="/api/chat", tag="kb.hints/v2")`; values are
        compared as text, so that `priority="None"` finds the requests without that header.
        """
        listed: list[dict[str, Any]] = self._get("/simulator/requests", match)["requests"]
        return listed

    def count(self, **match: str) -> int:
        """How many requests matched, as `requests`."""
        return len(self.requests(**match))

    def state(self) -> dict[str, Any]:
        """Loaded models, waiting requests, counters of loads and evictions, settings."""
        return self._get("/simulator/state", {})

    def set_faults(self, faults: Sequence[Mapping[str, Any]]) -> None:
        """Replace the list of faults (see `faults.Fault`)."""
        self._put("/simulator/faults", list(faults))

    def set_script(self, script: Mapping[str, Sequence[Any]]) -> None:
        """Replace the script: prompt tag -> answers or faults (see `script.Script`)."""
        self._put("/simulator/script", dict(script))

    def set_pace(self, **pace: float) -> None:
        """Change tokens_per_second, prompt_tokens_per_second, load_seconds_per_gib or unload_seconds while running."""
        self._put("/simulator/pace", pace)

    def finish_loads(self) -> None:
        """End the loads under way now, whatever they would have taken at their pace."""
        self._put("/simulator/loads", {})

    def end_runner(self, model: str) -> None:
        """End the process in which the model is, and with it what it is at (see `faults.Crash`)."""
        self._http.delete(f"/simulator/runners/{model}").raise_for_status()

    def open_gate(self, gate: str) -> None:
        """Let every request go on that waits at this gate, now and later (see `faults.Stall.gate`)."""
        self._put(f"/simulator/gates/{gate}", {})

    def shut_gate(self, gate: str) -> None:
        """Close it again: requests that come later wait there."""
        self._http.delete(f"/simulator/gates/{gate}").raise_for_status()

    def unload(self) -> None:
        """Ask every loaded model to leave (the running requests finish first)."""
        for runner in self.state()["loaded"]:
            body = {"model": runner["model"], "keep_alive": 0}
            self._http.post("/api/generate", json=body).raise_for_status()

    def forget(self) -> None:
        """Empty the journal of requests and its counters."""
        self._http.delete("/simulator/requests").raise_for_status()

    def terminate(self) -> int:
        """SIGTERM, wait for the drain, and return the exit status."""
        self._signal(signal.SIGTERM)
        return self._process.wait(waiting.PATIENCE)

    def kill(self) -> None:
        """SIGKILL: the connections of running requests are reset."""
        self._signal(signal.SIGKILL)
        self._process.wait(waiting.PATIENCE)

    def close(self) -> None:
        """Stop whatever still runs; ends with SIGKILL when a drain takes too long."""
        self._http.close()
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self.kill()

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _get(self, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        response = self._http.get(path, params=dict(query))
        response.raise_for_status()
        document: dict[str, Any] = response.json()
        return document

    def _put(self, path: str, document: object) -> None:
        response = self._http.put(path, json=document)
        if response.is_error:
            raise ValueError(f"{path}: {response.text}")


def start(directory: Path, port: int = 0, **flags: Flag) -> Fake:
    """Start one simulator whose log and files live in `directory`; the caller closes it.

    `flags` are the command line's, with underscores: lists become comma lists, a mapping or a list of mappings given as
    `script`, `faults` or `models` becomes a JSON file. A failure shows the process's own words.
    """
    directory.mkdir(parents=True, exist_ok=True)
    ready, log = directory / "ready.json", directory / "ollama.log"
    ready.unlink(missing_ok=True)
    arguments = ["--port", str(port), "--ready-file", str(ready)]
    for name, value in flags.items():
        arguments += ["--" + name.replace("_", "-"), _argument(directory, name, value)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("FAKE_OLLAMA_")}
    log.write_bytes(b"")
    process = children.of("tests.fakes.ollama").start(environment, log, arguments)
    waiting.served(ready.exists, process, log)
    return Fake(json.loads(ready.read_text(encoding="utf-8"))["url"], process, log)


@contextmanager
def running(port: int = 0, **flags: Flag) -> Iterator[Fake]:
    """A simulator for the length of the block, with a temporary folder of its own. Arguments as `start`."""
    with tempfile.TemporaryDirectory(prefix="fake-ollama-") as folder:
        fake = start(Path(folder), port, **flags)
        try:
            yield fake
        finally:
            fake.close()


def _argument(directory: Path, name: str, value: Flag) -> str:
    if isinstance(value, Mapping) or (isinstance(value, list | tuple) and any(isinstance(v, Mapping) for v in value)):
        path = directory / f"{name}.json"
        path.write_text(json.dumps(value), encoding="utf-8")
        return str(path)
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value)
