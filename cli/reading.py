"""Objects as the apiserver serves them -> the models of `crds`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import pydantic

from cli import errors
from crds import gpubackend, history, pendingtask
from crds.model import Model

Object = dict[str, Any]
"""An object as JSON; printed as it is by `-o json`, so that nothing is lost that our models do not know."""

_M = TypeVar("_M", bound=Model)


def task(raw: Mapping[str, Any]) -> pendingtask.PendingTask:
    """A PendingTask. Raises `Unusable` for one that this version cannot read."""
    return _read(pendingtask.PendingTask, raw)


@dataclass(frozen=True)
class Row:
    """A line of the apiserver's table. `task` has what the printer columns of the CRD hold and no more: no content, no
    conditions. `dispatch` is the reason of the condition Dispatched."""

    task: pendingtask.PendingTask
    dispatch: str = ""


def row(metadata: Mapping[str, Any], cells: Mapping[str, Any]) -> Row:
    """From the cells by column name; a column that the cluster's CRD lacks is an unknown value. Raises `Unusable`."""
    known = {name: cell for name, cell in cells.items() if cell not in (None, "")}
    said = {
        "metadata": metadata,
        "spec": {
            "type": known.get("Type"),
            "clientId": known.get("Client"),
            "mode": known.get("Mode", pendingtask.Mode.BACKGROUND),
            "queuePosition": known.get("Position"),
            "suspend": known.get("Suspended", False),
        },
        "status": {
            "phase": known.get("Phase"),
            "route": {"decision": known["Route"]} if "Route" in known else None,
            "scheduledFor": known.get("Due"),
            "retry": {"nextAt": known["Next-Retry"]} if "Next-Retry" in known else None,
            "userTask": {"kind": known["Asks"]} if "Asks" in known else None,
            "dispatch": {"backend": known["Backend"]} if "Backend" in known else None,
        },
    }
    return Row(task(said), str(known.get("Dispatch", "")))


def backend(raw: Mapping[str, Any]) -> gpubackend.GpuBackend:
    """A GpuBackend. Raises `Unusable` for one that this version cannot read."""
    return _read(gpubackend.GpuBackend, raw)


def entry(raw: Mapping[str, Any]) -> history.Entry:
    """A finished task of the archive. Raises `Unusable` for one that this version cannot read."""
    return _read(history.Entry, raw)


def _read(model: type[_M], raw: Mapping[str, Any]) -> _M:
    try:
        return model.model_validate(raw)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        raise errors.Unusable(
            f"{model.__name__} {raw.get('metadata', raw).get('name', '')!r} cannot be read: {first['msg']}.",
            field=".".join(str(part) for part in first["loc"]),
            remedy="Install the version of kubectl-jervis that belongs to the cluster's, or use -o json.",
        ) from error
