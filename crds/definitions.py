"""The three CustomResourceDefinitions: the models' schemas with names, printer columns and selectable fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crds import GROUP, VERSION, connection, gpubackend, pendingtask
from crds.model import Model
from crds.schema import structural


@dataclass(frozen=True)
class Column:
    """A column of `kubectl get`; `wide` ones show with `-o wide` only.

    People read them, in 160 columns of a terminal; programs read the objects. kubectl makes a column as wide as its
    longest cell and three blanks. A time of type date shows as an age, so one in the future cannot be shown so.
    """

    name: str
    path: str
    type: str = "string"
    wide: bool = False
    description: str = ""

    def wire(self) -> dict[str, Any]:
        """As apiextensions/v1 spells it."""
        column: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        if self.description:
            column["description"] = self.description
        if self.wide:
            column["priority"] = 1
        return column


@dataclass(frozen=True)
class Definition:
    """One kind."""

    kind: str
    plural: str
    short: str
    model: type[Model]
    columns: tuple[Column, ...]
    selectable: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the CRD object."""
        return f"{self.plural}.{GROUP}"

    def manifest(self) -> dict[str, Any]:
        """The CustomResourceDefinition object."""
        schema = structural(self.model)
        schema["properties"] = {
            key: value for key, value in schema["properties"].items() if key in ("spec", "status")
        } | {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
        schema["required"] = ["spec"]
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {
                "group": GROUP,
                "scope": "Namespaced",
                "names": {
                    "kind": self.kind,
                    "listKind": f"{self.kind}List",
                    "plural": self.plural,
                    "singular": self.kind.lower(),
                    "shortNames": [self.short],
                    "categories": ["jervis"],
                },
                "versions": [
                    {
                        "name": VERSION,
                        "served": True,
                        "storage": True,
                        "subresources": {"status": {}},
                        "additionalPrinterColumns": [column.wire() for column in self.columns],
                        "selectableFields": [{"jsonPath": path} for path in self.selectable],
                        "schema": {"openAPIV3Schema": schema},
                    }
                ],
            },
        }


_AGE = Column("Age", ".metadata.creationTimestamp", "date")


def _condition(type_: str, part: str) -> str:
    return f'.status.conditions[?(@.type=="{type_}")].{part}'


ALL = (
    Definition(
        kind="PendingTask",
        plural="pendingtasks",
        short="pt",
        model=pendingtask.PendingTask,
        columns=(
            Column("Type", ".spec.type"),
            Column("Client", ".spec.clientId"),
            Column("Mode", ".spec.mode"),
            Column("Phase", ".status.phase", description="Phase of the task"),
            Column("Route", ".status.route.decision", description="Decision of qualification"),
            Column("Dispatch", _condition("Dispatched", "reason"), description="Running, Preempted, NoFreeSlot, ..."),
            Column("Succeeded", _condition("Succeeded", "status"), description="True or False once it has ended"),
            Column("Ended", ".status.completedAt", "date", wide=True, description="Time since its last phase"),
            _AGE,
        ),
        selectable=(
            ".status.phase",
            ".status.preemption.by",
            ".spec.type",
            ".spec.clientId",
            ".spec.projectId",
            ".spec.groupId",
        ),
    ),
    Definition(
        kind="Connection",
        plural="connections",
        short="conn",
        model=connection.Connection,
        columns=(
            Column("Type", ".spec.type"),
            Column("Client", ".spec.clientId"),
            Column("Ready", _condition("Ready", "status")),
            Column("Reason", _condition("Ready", "reason")),
            Column("Indexed", ".status.items.indexed", "integer"),
            Column("Failed", ".status.items.failed", "integer"),
            Column("Success", ".status.lastSuccessTime", "date", description="Time since everything new was stored"),
            Column("Url", ".spec.url", wide=True),
            _AGE,
        ),
        selectable=(".spec.type", ".spec.clientId"),
    ),
    Definition(
        kind="GpuBackend",
        plural="gpubackends",
        short="gpu",
        model=gpubackend.GpuBackend,
        columns=(
            Column("Kind", ".spec.kind"),
            Column("Pool", ".spec.pool"),
            Column("Vram", ".spec.vram"),
            Column("Ready", _condition("Ready", "status")),
            Column("Reason", _condition("Ready", "reason")),
            Column("Set", ".status.activeSet"),
            Column("Reserved", ".status.reservation.holder"),
            Column("Engine", ".spec.engine", wide=True),
            Column("Url", ".spec.url", wide=True),
            _AGE,
        ),
        selectable=(".spec.kind", ".spec.pool"),
    ),
)
