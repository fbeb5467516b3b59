"""Base of the custom resources' models: camelCase on the wire, docstrings as field descriptions.

Unknown fields are ignored when parsing: the apiserver has already refused or pruned fields that its schema does not
know, and an older operator must be able to read objects of a newer one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

T = TypeVar("T", bound="Model")


def rules(*pairs: tuple[str, str]) -> dict[str, Any]:
    """The schema keyword for CEL rules; each pair is (rule, message with the remedy)."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}


IMMUTABLE = ("self == oldSelf", "is immutable; delete the object and create a new one")


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


ONE_WRITER: dict[str, Any] = {"x-kubernetes-map-type": "atomic"}
"""Schema keyword of a status: its writer owns all of it. Only the operator writes it, which the admission policy
ensures. Ownership per field in `metadata.managedFields` was a third of the object (docs/decisions/0023)."""

_FIRST_YEAR, _LAST_YEAR = 1000, 9000
"""Adding or subtracting a duration never leaves the range of datetime."""


def within_years(field: str) -> tuple[str, str]:
    """The CEL rule that refuses a moment outside the range of `Time`."""
    year = f"self.{field}.getFullYear()"
    return (
        f"!has(self.{field}) || ({year} >= {_FIRST_YEAR} && {year} <= {_LAST_YEAR})",
        f"{field} must lie within the years {_FIRST_YEAR} to {_LAST_YEAR}",
    )


def _utc(moment: datetime) -> datetime:
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise ValueError(f"is outside of the years {_FIRST_YEAR} to {_LAST_YEAR}")
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


# metav1.Time: RFC 3339, UTC, whole seconds.
Time = Annotated[
    datetime,
    AfterValidator(_utc),
    PlainSerializer(_rfc3339, return_type=str),
    Field(json_schema_extra={"format": "date-time"}),
]


class Model(BaseModel):
    """Base of specs, statuses and their parts."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
        extra="ignore",
        frozen=True,
    )

    def wire(self) -> dict[str, Any]:
        """The object as the apiserver stores it: camelCase keys, no nulls."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class Metadata(Model):
    """The part of metav1.ObjectMeta that decisions use."""

    name: str
    namespace: str = "default"
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: Mapping[str, str] = Field(default_factory=dict)
    annotations: Mapping[str, str] = Field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
