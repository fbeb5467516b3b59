"""`make demo MODEL=small`: a real Ollama on this machine with the small models of `hack.models`, for the local cluster.

It listens on loopback; `relay` lets the pods reach it. It ends with `make demo-down`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from hack import ollama
from hack.cluster import layout, process, progress
from hack.demo.settings import Settings
from hack.models import catalogue, server, store

_START_SECONDS = 120
# What a model of this size cannot show, by the name of the part and why.
LEFT_OUT = (
    ("one mail twice, with other words in its screenshot", "the model sees no pictures"),
    ("an agent works, and a person approves", "what a real model proposes is not known"),
    ("where each task ends", "routes are the model's own; the simulation has them by rules"),
)


def values() -> dict[str, Any]:
    """Values of the release. One model has all chat roles, with one window, since another one loads it anew."""
    model = catalogue.SMOLLM2.name
    chat = dict.fromkeys(("orchestrator", "qualifier", "planner", "decision", "vision"), model)
    return {
        "models": {
            **chat,
            "fast": "",
            "embedding": catalogue.MINILM.name,
            "embeddingInstruction": "",
            "numCtx": {"chat": catalogue.CONTEXT, "planner": catalogue.CONTEXT},
        }
    }


def ensure(wanted: Settings, cluster: layout.Layout, report: progress.Progress) -> Settings:
    """Settings whose `ollama_url` is an Ollama with the small models. Raises hack.cluster.errors.Failure."""
    if not wanted.small:
        return wanted
    program = ollama.program(report)
    folder = store.ensure(catalogue.SMALL, program, report)
    daemon = _daemon(cluster)
    with report.step("starting Ollama"):
        daemon.stop()  # it may be another program or have another model in memory
        daemon.log.unlink(missing_ok=True)
        address = server.free_address()
        chosen = server.environment(address, folder)
        # Nothing of the user's own environment: it may have settings of another Ollama.
        daemon.start([program, "serve"], prefix=["env", "-i", *(f"{name}={value}" for name, value in chosen.items())])
        daemon.wait(lambda: server.answers(f"http://{address}"), _START_SECONDS)
    return dataclasses.replace(wanted, ollama_url=f"http://{address}")


def remove(cluster: layout.Layout) -> None:
    """Stop the Ollama if there is one."""
    _daemon(cluster).stop(grace=30)


def crashes(cluster: layout.Layout) -> list[str]:
    """Lines of Ollama's log that say that the server or a runner of a model died."""
    return server.crashes(_daemon(cluster).log)


def _daemon(cluster: layout.Layout) -> process.Daemon:
    return process.Daemon("ollama", cluster.directory / "relay")


def words() -> Sequence[str]:
    """How small the model is, and what is left out, a line each."""
    chat, embedder = catalogue.SMOLLM2, catalogue.MINILM
    return [
        f"{chat.name} has {chat.size} parameters (one of 7 billion has fifty times as many): it answers in the right"
        " form, and knows next to nothing. Its routes, facts and answers are mostly wrong;",
        f"what this shows is Jervis with a real engine. {embedder.name} ({embedder.size}) finds texts by meaning.",
        "Only the simulation shows:",
        *(f"  {part}: {why}" for part, why in LEFT_OUT),
    ]
