"""A forked program: what it imports late is there at its next start; modules of its own folder never are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nursery import children

PROGRAM = """
import sys

print("colorsys" in sys.modules, "beside" in sys.modules)
exec("import beside, colorsys")  # as no import statement, which would be read before the first start
sys.exit(3)
"""


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[children.Nursery]:
    (tmp_path / "beside.py").touch()
    (tmp_path / "program.py").write_text(PROGRAM)
    made = children.Nursery(str(tmp_path / "program.py"))
    yield made
    made.close()


def test_what_a_child_had_to_import_is_there_at_the_next_start(nursery: children.Nursery, tmp_path: Path) -> None:
    logs = [tmp_path / "first", tmp_path / "second", tmp_path / "third"]
    assert [nursery.start({}, log).wait(60) for log in logs] == [3, 3, 3]
    assert [log.read_text() for log in logs] == ["False False\n", "True False\n", "True False\n"]
