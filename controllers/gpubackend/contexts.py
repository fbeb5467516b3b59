"""Context windows that processes ask for, beside those with which a GpuBackend loads its models. Pure.

The router sends each request with the window of its GpuBackend: of a process that expects a larger one, the server
refuses longer prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from crds import gpubackend, modelnames

CONDITION = "ContextFits"


class Window(BaseModel):
    """The window in tokens that the processes of a role ask for."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)

    role: str
    model: str
    num_ctx: Annotated[int, Field(ge=1)]


def loaded(backend: gpubackend.GpuBackend, model: str) -> int | None:
    """The least window with which it loads that model; None where it states none. A name counts before patterns."""
    wanted = modelnames.normalise(model)
    entries = [member for one in backend.spec.model_sets for member in one.models]
    named = [one for one in entries if modelnames.fits(one.name, wanted)]
    exact = [one for one in named if not modelnames.is_pattern(one.name)]
    return min((one.num_ctx for one in exact or named if one.num_ctx is not None), default=None)


def shortfalls(backend: gpubackend.GpuBackend, windows: Sequence[Window]) -> tuple[str, ...] | None:
    """A sentence for each window that it does not have; None where there is nothing to compare."""
    compared = [(one, have) for one in windows if (have := loaded(backend, one.model)) is not None]
    if not compared:
        return None
    return tuple(
        f"models.numCtx.{one.role} is {one.num_ctx}, but {one.model} is loaded with {have} here."
        for one, have in compared
        if one.num_ctx > have
    )
