"""Rules of a GpuBackend's spec about several fields at once, and about lists whose entries must differ.

Each rule stands here twice, side by side: in CEL for the apiserver, and in Python for a router that takes its backends
from a setting (`faults`). `tests/crds/rejections/gpubackend.yaml` is run against both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from crds import values

if TYPE_CHECKING:
    from crds import gpubackend

ENDS_WITH_V1 = "//[^/]+/(.*/)?v1/*$"
"""A URL whose path ends with /v1, in RE2 and Python: for the host v1 alone there is no path."""

IDLE = (
    "self.idleReleaseSeconds <= self.maxSeconds",
    "idleReleaseSeconds must not be larger than maxSeconds",
)
CPU_VRAM = (
    "self.kind != 'CPU' || !has(self.vram)",
    "vram is for kind GPU; leave it out for a CPU backend",
)
FITS = (
    "!has(self.vram) || !has(self.modelSets) || self.modelSets.all(s, s.models.all(m, !has(m.vram) ||"
    " quantity(m.vram).compareTo(quantity(self.vram)) <= 0))",
    "a model in modelSets needs more vram than the backend has; raise spec.vram or take the model out",
)
OPENAI_URL = (
    f"self.engine != 'OpenAI' || !self.url.matches('{ENDS_WITH_V1}')",
    "url of engine OpenAI is given without the /v1 at its end; take it away",
)
OPENAI_SETS = (
    "self.engine != 'OpenAI' || !has(self.modelSets) || self.modelSets.size() <= 1",
    "modelSets of engine OpenAI has one set at most, because its server keeps its models in memory;"
    " put the models into one set",
)
OPENAI_MODELS = (
    "self.engine != 'OpenAI' || !has(self.modelSets)"
    " || self.modelSets.all(s, s.models.all(m, !has(m.numCtx) && !has(m.vram)))",
    "numCtx and vram of a model are for engine Ollama; leave them out and set them with the server's own flags",
)
_TWICE = "stands there twice; take one of them away"


class Fault(NamedTuple):
    """`field` is its path below the spec, such as `modelSets[0].models[1].vram`; `message` is what is wrong and, after
    a semicolon, the remedy."""

    field: str
    message: str


def faults(spec: gpubackend.Spec) -> Iterator[Fault]:
    """Everything that the apiserver would refuse in a spec whose fields are valid one by one."""
    if message := values.host_fault(spec.url):
        yield Fault("url", message)
    if spec.kind == "CPU" and spec.vram is not None:
        yield Fault("vram", CPU_VRAM[1])
    if spec.reservation.idle_release_seconds > spec.reservation.max_seconds:
        yield Fault("reservation.idleReleaseSeconds", f"{IDLE[1]}; lower it or raise maxSeconds")
    yield from _twice("capabilities", "", spec.capabilities)
    yield from _twice("ceilings", ".client", (one.client for one in spec.ceilings))
    yield from _twice("modelSets", ".name", (one.name for one in spec.model_sets))
    openai = spec.engine == "OpenAI"
    if openai and re.search(ENDS_WITH_V1, spec.url):
        yield Fault("url", OPENAI_URL[1])
    if openai and len(spec.model_sets) > 1:
        yield Fault("modelSets[1]", OPENAI_SETS[1])
    most = None if spec.vram is None else values.quantity_bytes(spec.vram)
    for at, model_set in enumerate(spec.model_sets):
        yield from _twice(f"modelSets[{at}].models", ".name", (one.name for one in model_set.models))
        for number, model in enumerate(model_set.models):
            path = f"modelSets[{at}].models[{number}]"
            if openai and model.num_ctx is not None:
                yield Fault(f"{path}.numCtx", OPENAI_MODELS[1])
            if openai and model.vram is not None:
                yield Fault(f"{path}.vram", OPENAI_MODELS[1])
            elif most is not None and model.vram is not None and values.quantity_bytes(model.vram) > most:
                yield Fault(f"{path}.vram", FITS[1])


def _twice(field: str, key: str, names: Iterable[str]) -> Iterator[Fault]:
    seen = set[str]()
    for index, name in enumerate(names):
        if name in seen:
            yield Fault(f"{field}[{index}]{key}", f"{str(name)!r} {_TWICE}")
        seen.add(name)
