"""Objects as the apiserver serves them -> the models of `crds`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import pydantic

from cli import errors
from contracts.api import history
from crds import connection as connections
from crds import gpubackend, pendingtask
from crds.model import Model

Object = dict[str, Any]
"""An object as JSON; printed as it is by `-o json`, so that nothing is lost that our models do not know."""

_IN_LINES = ("phase", "route", "scheduledFor", "userTask", "dispatch")

_M = TypeVar("_M", bound=Model)


def task(raw: Mapping[str, Any]) -> pendingtask.PendingTask:
    """A PendingTask. Raises `Unusable` for one that this version cannot read."""
    return _read(pendingtask.PendingTask, raw)


def line(raw: Mapping[str, Any]) -> pendingtask.PendingTask:
    """A PendingTask as a line of a table needs it: without content and without sentences. Raises `Unusable`."""
    spec, status = raw["spec"], raw.get("status") or {}
    kept = {key: status[key] for key in _IN_LINES if key in status}
    if "retry" in status:
        kept["retry"] = {**status["retry"], "reason": ""}
    kept["conditions"] = [{**one, "message": ""} for one in status.get("conditions", ())]
    told = {key: spec[key] for key in ("type", "clientId", "mode", "queuePosition", "suspend") if key in spec}
    return task({"metadata": raw["metadata"], "spec": told, "status": kept})


def backend(raw: Mapping[str, Any]) -> gpubackend.GpuBackend:
    """A GpuBackend. Raises `Unusable` for one that this version cannot read."""
    return _read(gpubackend.GpuBackend, raw)


def connection(raw: Mapping[str, Any]) -> connections.Connection:
    """A Connection. Raises `Unusable` for one that this version cannot read."""
    return _read(connections.Connection, raw)


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
