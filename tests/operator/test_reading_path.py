"""ARCHITECTURE.md's reading path of a task's event is the way of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import flow
from tests.flow import recording
from tests.operator import process
from tests.operator.conftest import Space
from tests.operator.kubelet import Kubelet

__all__ = ["recording"]
pytestmark = [pytest.mark.apiserver, pytest.mark.services]


def test_an_event_takes_the_reading_path(space: Space, start: process.Start, recording: Path) -> None:
    with Kubelet(space.api, space.name), start(slots=1) as operator:
        flow.begin(operator.process.pid, recording)
        space.bring("Completed", "ask")
        flow.agrees("a task's event", flow.end(operator.process.pid, recording))
