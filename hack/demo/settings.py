"""Everything that can be chosen, read once from the environment by `__main__`.

KUBECONFIG           a cluster of yours; without it the local cluster of `hack.cluster` is used
IMAGE, FAKES_IMAGE   images that your cluster can pull, instead of the locally built ones
OLLAMA_URL           a real Ollama (reachable from the pods) instead of the simulators
MODEL=small          a real Ollama with small models, fetched and started here (local cluster only)
OLLAMA_MODEL         its model for all chat roles; OLLAMA_ORCHESTRATOR, OLLAMA_PLANNER, OLLAMA_QUALIFIER, OLLAMA_FAST
                     and OLLAMA_DECISION are for one of them
OLLAMA_EMBEDDING, OLLAMA_VISION, OLLAMA_RERANKER   its other models
MONGODB_URI, WEAVIATE_URL, WEAVIATE_GRPC_PORT      data services as pods reach them
DEMO_NAMESPACE       where it is installed, default `jervis`
DEMO_TIMEOUT         the longest that a task may take, in seconds
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from crds import modelroles
from hack.cluster import layout
from hack.demo import errors

RELEASE = "jervis"
LABEL = "jervis.dev/demo"
CLIENT = "demo"
PROJECT = "platform"
SMALL = "small"
# A task takes minutes on two cores, and the tasks of a part are read one after the other.
_SMALL_SECONDS = 3600


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
    small: bool = False

    @property
    def simulated(self) -> bool:
        """Whether the language models are simulators."""
        return not self.ollama_url and not self.small


def read(environment: Mapping[str, str]) -> Settings:
    """Settings from `environment`. Raises errors.Failure naming the variable and the remedy."""
    cluster = layout.read(environment)
    given = environment.get("KUBECONFIG", "")
    # `python -m hack.demo env` puts a file for this namespace beside the cluster's own.
    local = not given or Path(given).absolute().parent == cluster.directory
    models = {
        key: environment[variable]
        for key, variable in (
            ("chat", "OLLAMA_MODEL"),
            *((role.name, f"OLLAMA_{role.name.upper()}") for role in modelroles.ROLES),
        )
        if environment.get(variable)
    }
    ollama = _url(environment, "OLLAMA_URL")
    if models and not ollama:
        raise errors.Failure("OLLAMA_MODEL, OLLAMA_QUALIFIER and the others go with OLLAMA_URL: set that as well")
    small = _small(environment, local=local)
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
        timeout=_number(environment, "DEMO_TIMEOUT", _SMALL_SECONDS if small else 180),
        small=small,
    )


def _small(environment: Mapping[str, str], *, local: bool) -> bool:
    model = environment.get("MODEL", "")
    if model not in ("", SMALL):
        raise errors.Failure(f"MODEL={model!r}: give {SMALL}, or the address of an Ollama of yours as OLLAMA_URL")
    if model and environment.get("OLLAMA_URL"):
        raise errors.Failure("MODEL and OLLAMA_URL are both set: the one starts an Ollama here, the other names yours")
    if model and not local:
        raise errors.Failure(
            "MODEL=small starts an Ollama on this machine, which pods of a cluster of yours do not reach: unset"
            " KUBECONFIG, or give OLLAMA_URL"
        )
    return bool(model)


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
