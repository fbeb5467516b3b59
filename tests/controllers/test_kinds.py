"""The handlers of kinds are registered with kopf and found again."""

from __future__ import annotations

from typing import Any

import kopf
import pytest

from controllers import kopf as bare
from controllers import kube


def test_a_kind_finds_its_handler() -> None:
    kinds = bare.Kinds()
    heard: list[Any] = []

    @kopf.on.event("jervis.dev", "v1alpha1", "pendingtasks", registry=kinds)
    def task(event: Any, memo: Any, **_: Any) -> None:
        heard.append((event["type"], memo))

    @kopf.on.event("", "v1", "pods", registry=kinds)
    def pod(**_: Any) -> None:
        raise AssertionError("not this one")

    kinds.handler(*kube.TASKS.kind)(event={"type": "ADDED"}, memo="memo")
    assert heard == [("ADDED", "memo")]
    assert kinds.handler(*kube.PODS.kind) is pod
    with pytest.raises(LookupError, match=r"jobs\.batch/v1"):
        kinds.handler(*kube.JOBS.kind)
