"""GpuBackend (`gpu`): one Ollama server, or one that speaks OpenAI's API, its capacity and its model sets.

Source: blueprint section 3; seed 000 "Model Sets (alternating on GPU)" and "Key Configuration".
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from crds import backendrules
from crds.conditions import Condition
from crds.model import ONE_WRITER, Metadata, Model, Time, rules
from crds.values import HttpUrl, Identifier, ModelName, Quantity, SecretRef

# A model's name as Ollama spells it, or a pattern in which `*` matches any characters.
ModelPattern = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[A-Za-z0-9*][A-Za-z0-9._:/@*-]*$")]


class Kind(StrEnum):
    """GPU backends are preferred; CPU backends are the fallback."""

    GPU = "GPU"
    CPU = "CPU"


class Engine(StrEnum):
    """The API that a server speaks. An OpenAI server (vLLM, llama.cpp's, LM Studio, SGLang) serves /v1 alone."""

    OLLAMA = "Ollama"
    OPENAI = "OpenAI"


class Capability(StrEnum):
    """Kinds of requests that a backend serves."""

    GENERATE = "generate"
    EMBED = "embed"
    VISION = "vision"


class Circuit(StrEnum):
    """Closed: requests flow. Open: none do. HalfOpen: one probe."""

    CLOSED = "Closed"
    OPEN = "Open"
    HALF_OPEN = "HalfOpen"


class Preemption(StrEnum):
    """When a request may be interrupted for a more urgent one."""

    NEVER = "Never"
    BEFORE_FIRST_BYTE = "BeforeFirstByte"
    AFTER_FIRST_BYTE = "AfterFirstByte"


class ModelSpec(Model):
    """One model of a set."""

    name: ModelPattern
    """As Ollama spells it; `qwen3` and `qwen3:latest` are the same. `*` matches any characters, as in `qwen2.5:*`. An
    exact name is preferred to patterns, a longer pattern to a shorter one."""
    vram: Quantity | None = None
    """GPU memory of the loaded model."""
    num_ctx: Annotated[int, Field(ge=256, le=1_048_576)] | None = None
    """Context length of the loaded model; a request with another one would reload it."""
    cpu_allowed: bool = False
    """Whether a CPU backend may serve the model instead."""
    priority: Annotated[int, Field(ge=0, le=3)] | None = None
    """Priority of requests that name this model and carry no header: 0 (critical) to 3 (background)."""


class ModelSet(Model):
    """Models that are loaded together."""

    name: Identifier
    """For example orchestrator or background."""
    models: Annotated[
        tuple[ModelSpec, ...],
        Field(
            min_length=1,
            max_length=32,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ]
    """Models of the set."""


class Ceiling(Model):
    """The most urgent priority that a client may claim."""

    client: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9*][A-Za-z0-9._:@/*-]*$")]
    """Who: system:serviceaccount:NAMESPACE:NAME, the name of a token, an address, or the clientId of a run's token; `*`
    stands for anything, an exact name counts before the longest pattern."""
    priority: Annotated[int, Field(ge=0, le=3)]
    """0 (critical) to 3 (background). A request with a more urgent priority is lowered to this one and counted; it is
    not refused."""


class Reservation(Model):
    """How long an orchestrator may reserve the GPU."""

    model_config = ConfigDict(json_schema_extra=rules(backendrules.IDLE))

    max_seconds: Annotated[int, Field(ge=1, le=86_400)] = 1800
    """A reservation ends this many seconds after its last announcement or P0 request."""
    idle_release_seconds: Annotated[int, Field(ge=1, le=86_400)] = 300
    """A reservation without a P0 or P1 request for this many seconds is released; loading its models counts as use."""


class Spec(Model):
    """The server, its capacity and its limits."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            backendrules.CPU_VRAM,
            backendrules.FITS,
            backendrules.OPENAI_URL,
            backendrules.OPENAI_SETS,
            backendrules.OPENAI_MODELS,
        )
    )

    url: HttpUrl
    """Base URL of the server, for example http://gpu-0:11434; without /v1 at its end."""
    engine: Engine = Engine.OLLAMA
    """Ollama or OpenAI. A server of engine OpenAI, such as vLLM or llama.cpp's, gets the requests to /v1 alone. It
    loads its models itself: modelSets then says which of them are served and how urgent they are, and it is never
    reserved; maxLoadedModels and reservation have no effect."""
    kind: Kind = Kind.GPU
    """GPU or CPU."""
    pool: Identifier = "default"
    """Backends of one pool share the requests. In a pool with several GPUs one is never reserved."""
    weight: Annotated[int, Field(ge=1, le=100)] = 1
    """Share of the requests: weight 2 gets twice as many as weight 1."""
    vram: Quantity | None = None
    """Memory of the GPU."""
    num_parallel: Annotated[int, Field(ge=1, le=65_536)] = 1
    """OLLAMA_NUM_PARALLEL of the server: requests in flight per model. For engine OpenAI, how many it serves at once
    (--max-num-seqs of vLLM, --parallel of llama.cpp)."""
    max_in_flight: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """Requests in flight over all models. When absent: numParallel for a CPU, no further bound for a GPU."""
    max_loaded_models: Annotated[int, Field(ge=1, le=64)] = 3
    """OLLAMA_MAX_LOADED_MODELS of the server."""
    capabilities: Annotated[
        tuple[Capability, ...], Field(min_length=1, max_length=3, json_schema_extra={"x-kubernetes-list-type": "set"})
    ] = (Capability.GENERATE, Capability.EMBED, Capability.VISION)
    """Requests that the backend serves; others go to another backend."""
    model_sets: Annotated[
        tuple[ModelSet, ...],
        Field(
            max_length=8,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = ()
    """Sets of models that are loaded in turn. Without any, every model that the server lists may be used."""
    reservation: Annotated[
        Reservation, Field(json_schema_extra={"default": {"maxSeconds": 1800, "idleReleaseSeconds": 300}})
    ] = Field(default_factory=Reservation)
    """How long an orchestrator may reserve the GPU."""
    preemption: Preemption = Preemption.BEFORE_FIRST_BYTE
    """BeforeFirstByte: background requests whose answer has not begun move to another backend when a P0 request needs
    the slot. AfterFirstByte: running P3 answers end with an error line as well. Never: no request is interrupted."""
    ceilings: Annotated[
        tuple[Ceiling, ...],
        Field(
            max_length=64,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["client"]},
        ),
    ] = ()
    """Most urgent priority of each client's requests, valid for the whole router. If several backends have a ceiling
    for a client, the least urgent one is used."""
    drain: bool = False
    """Accept no new requests; running requests finish."""
    secret_ref: SecretRef | None = None
    """Bearer token for the server: under the key that is named, or token."""


class LoadedModel(Model):
    """One model in memory."""

    name: ModelName
    """As the server spells it."""
    vram: Quantity | None = None
    """GPU memory that it uses."""


class Holder(Model):
    """An active reservation."""

    holder: Annotated[str, Field(max_length=253)]
    """Client that has the reservation."""
    until: Time
    """End of the reservation."""
    lease_id: Annotated[str, Field(max_length=64)] = ""
    """Id by which the client renews and releases it."""
    model_set: Annotated[str, Field(max_length=63)] = ""
    """The model set that it is for."""


class Status(Model):
    """State of the server; written on change only."""

    model_config = ConfigDict(json_schema_extra=ONE_WRITER)

    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = ()
    """Ready, Reachable, ModelsLoaded."""
    observed_generation: Annotated[int, Field(ge=0)] = 0
    """The generation that the rest of the status is about."""
    active_set: Annotated[str, Field(max_length=512)] = ""
    """The loaded model set; several sets that fit together are joined by commas."""
    loaded_models: Annotated[
        tuple[LoadedModel, ...], Field(max_length=64, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    ] = ()
    """Models in memory."""
    reservation: Holder | None = None
    """The active reservation."""
    circuit: Circuit | None = None
    """State of the circuit breaker."""
    version: Annotated[str, Field(max_length=128)] = ""
    """Version that the server reports."""
    leader_epoch: Annotated[int, Field(ge=0)] = 0
    """leaseTransitions of the Lease of the operator that wrote this."""
    router_epoch: Annotated[int, Field(ge=0)] = 0
    """leaseTransitions of the Lease of the router that wrote activeSet, loadedModels, reservation and circuit."""


class GpuBackend(Model):
    """One server that the router may use."""

    api_version: Literal["jervis.dev/v1alpha1"] = "jervis.dev/v1alpha1"
    kind: Literal["GpuBackend"] = "GpuBackend"
    metadata: Metadata
    spec: Spec
    status: Status = Field(default_factory=Status)
