"""Bodies of `POST /router/announce` and `POST /router/release`, and their answers.

Source: seed 000 "Orchestrator Pre-announcement Protocol".
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class _Wire(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


Owner = Annotated[str, Field(min_length=1, max_length=253, description="who reserves, for example a Job's name")]
LeaseId = Annotated[str, Field(max_length=64, description="what an earlier announcement answered; renews it")]


class Announce(_Wire):
    """Body of an announcement."""

    owner: Owner
    model: Annotated[str, Field(max_length=256, description="what it is for; empty: the orchestrator's set")] = ""
    lease_id: LeaseId = ""
    spare_only: Annotated[
        bool,
        Field(
            description="only where another backend is there for other models, and no announcement keeps a GPU for this"
            " one already: 409 otherwise"
        ),
    ] = False


class Release(_Wire):
    """Body of a release. Without `leaseId`, which only a caller with a token of its own may leave out, the reservation
    of the owner ends."""

    owner: Owner
    lease_id: LeaseId = ""


class Ready(_Wire):
    """The GPU is reserved and its models are in memory. A reader ignores fields that a newer router adds."""

    model_config = ConfigDict(extra="ignore")

    status: Literal["ready"] = "ready"
    lease_id: str
    backend: str
    model_set: str = Field(description="empty on a GPU without model sets")
    until: datetime = Field(description="when it ends unless it is used or renewed")
    renew_seconds: float = Field(
        default=60.0, description="announce again within this time, or the reservation may end as idle between requests"
    )


class Released(_Wire):
    """`released` is false when nothing was reserved."""

    status: Literal["released"] = "released"
    released: bool
