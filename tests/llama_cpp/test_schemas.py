"""Every schema that can be sent is a grammar of llama.cpp, which takes an answer that fits and no other."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.ollama import gguf
from tests.schemas import foreign, instances, walking

PROGRAM = os.environ.get("JERVIS_TEST_LLAMA_CPP", "")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="JERVIS_TEST_LLAMA_CPP names no program: see make test-llama-cpp")


def _compiled(home: Path, samples: Sequence[walking.Sample]) -> dict[str, Any]:
    """What the engine says of each."""
    (home / "tiny.gguf").write_bytes(gguf.tiny(1))
    lines = []
    for sample in samples:
        pairs = [
            [instances.written(value).decode() for value in pair]
            for pair in instances.pairs(instances.ordered(sample.schema))
        ]
        fits, wrong = zip(*pairs, strict=True)
        lines.append(json.dumps({"schema": sample.schema, "fits": fits, "wrong": wrong}))
    ran = subprocess.run(
        [PROGRAM, str(Path(__file__).with_name("compiling.py")), str(home / "tiny.gguf")],
        input="\n".join(lines),
        env={"HOME": str(home), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=3600,
    )
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(answers) == len(samples), (
        f"{samples[len(answers)].name} ended it: {ran.returncode}, {ran.stderr[-2000:]}"
    )
    return {sample.name: answer for sample, answer in zip(samples, answers, strict=True)}


def test_each_schema_compiles_and_takes_what_fits_alone(tmp_path: Path) -> None:
    answers = _compiled(tmp_path, walking.formats())
    assert len(answers) > 100
    assert {
        name: answer
        for name, answer in answers.items()
        if "refused" in answer or not all(answer["fits"]) or any(answer["wrong"])
    } == {}


def test_a_bound_is_refused(tmp_path: Path) -> None:
    """The reference of the test above."""
    fine = {**foreign.BOUND, "properties": {"text": {"type": "string", "maxLength": 1000}}}
    answers = _compiled(tmp_path, [walking.Sample("bound", foreign.BOUND), walking.Sample("fine", fine)])
    assert answers == {
        "bound": {"refused": "llama.cpp cannot read the grammar"},
        "fine": {"fits": [True] * 4, "wrong": [False] * 4},
    }
