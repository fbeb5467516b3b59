"""Everything that can be chosen, read once from the environment by `__main__`.

KUBECONFIG           a cluster of yours; without it the local cluster of `hack.cluster` is used
IMAGE, FAKES_IMAGE   images that your cluster can pull, instead of the locally built ones
OLLAMA_URL           a real Ollama (reachable from the pods) instead of the simulators
OLLAMA_MODEL, OLLAMA_QUALIFIER, OLLAMA_EMBEDDING, OLLAMA_VISION   its models
MONGODB_URI, WEAVIATE_URL, WEAVIATE_GRPC_PORT      data services as pods reach them
DEMO_NAMESPACE       where it is installed, default `jervis`
DEMO_TIMEOUT         the longest that a task may take, in seconds
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from hack.cluster import layout
from hack.demo import errors

RELEASE = "jervis"
LABEL = "jervis.dev/demo"
CLIENT = "demo"
PROJECT = "platform"


@dataclass(frozen=True)
class Settings:
    """One run of the demonstration."""

    kubeconfig: str  # as the variable has it: kubectl takes a list of paths too
    local: bool  # our own cluster, whose data services run beside it
    checkout: Path
    state: Path  # a directory of ours that Git ignores
    namespace: str = "jervis"
    image: str = ""
    fakes_image: str = ""
    ollama_url: str = ""
    models: dict[str, str] = field(default_factory=dict)
    mongodb_uri: str = ""
    weaviate_url: str = ""
    weaviate_grpc_port: int = 50051
    timeout: float = 180.0

    @property
    def simulated(self) -> bool:
        """Whether the language models are simulators."""
        return not self.ollama_url


def read(environment: Mapping[str, str]) -> Settings:
    """Settings from `environment`. Raises errors.Failure naming the variable and the remedy."""
    cluster = layout.read(environment)
    given = environment.get("KUBECONFIG", "")
    # `python -m hack.demo env` puts a file for this namespace beside the cluster's own.
    local = not given or Path(given).absolute().parent == cluster.directory
    models = {
        key: environment[variable]
        for key, variable in (
            ("orchestrator", "OLLAMA_MODEL"),
            ("qualifier", "OLLAMA_QUALIFIER"),
            ("embedding", "OLLAMA_EMBEDDING"),
            ("vision", "OLLAMA_VISION"),
        )
        if environment.get(variable)
    }
    ollama = _url(environment, "OLLAMA_URL")
    if models and not ollama:
        raise errors.Failure("OLLAMA_MODEL, OLLAMA_QUALIFIER and the others go with OLLAMA_URL: set that as well")
    return Settings(
        kubeconfig=str(cluster.kubeconfig) if local else given,
        local=local,
        checkout=layout.CHECKOUT,
        state=cluster.directory,
        namespace=environment.get("DEMO_NAMESPACE") or "jervis",
        image=environment.get("IMAGE", ""),
        fakes_image=environment.get("FAKES_IMAGE", ""),
        ollama_url=ollama,
        models=models,
        mongodb_uri=environment.get("MONGODB_URI", ""),
        weaviate_url=_url(environment, "WEAVIATE_URL"),
        weaviate_grpc_port=_number(environment, "WEAVIATE_GRPC_PORT", 50051),
        timeout=_number(environment, "DEMO_TIMEOUT", 180),
    )


def _url(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if value and (urlsplit(value).scheme not in ("http", "https") or not urlsplit(value).hostname):
        raise errors.Failure(f"{name}={value!r}: give a URL such as http://host:port, as the pods reach it")
    return value.rstrip("/")


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    value = environment.get(name) or str(default)
    if not value.isascii() or not value.isdigit() or int(value) < 1:
        raise errors.Failure(f"{name}={value!r}: give a whole number above 0")
    return int(value)
