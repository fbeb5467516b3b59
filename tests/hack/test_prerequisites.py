"""Each program of the one list is missed where it is not there, and its package is named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from hack.cluster import prerequisites
from tests import needs

ROOT = Path(__file__).resolve().parents[2]
_HIDE = """
import json, os, shutil, subprocess, sys
from pathlib import Path
from hack.cluster import errors, prerequisites, progress

folders = f"{os.environ['PATH']}:{prerequisites._SYSTEM_PATHS}".split(":")
for package, brings in prerequisites.TESTS.items():
    places = {Path(brings)} if brings.startswith("/") else {Path(folder, brings) for folder in folders}
    hidden = {place.resolve() for place in places if place.is_file()}
    for place in hidden:
        subprocess.run(["mount", "--bind", "/dev/null", place], check=True)
    which, shutil.which = shutil.which, lambda name, **more: None if name == "apt-get" else which(name, **more)
    try:
        prerequisites.install(prerequisites.TESTS, progress.Progress())
        sentence = ""
    except errors.Missing as missing:
        sentence = str(missing)
    shutil.which = which
    for place in hidden:
        subprocess.run(["umount", place], check=True)
    print(json.dumps([package, sentence]))
"""


def test_a_program_that_is_hidden_is_asked_for_by_its_package() -> None:
    absent = set(prerequisites.missing(prerequisites.TESTS))
    command = [*needs.mounting(), sys.executable, "-c", _HIDE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    sentences: dict[str, str] = dict(json.loads(line) for line in done.stdout.splitlines())
    assert sentences.keys() == prerequisites.TESTS.keys()
    for package, sentence in sentences.items():
        asked, _, packages = sentence.partition(": ")
        assert asked == "install the programs of these Debian packages"
        assert set(packages.split()) == absent | {package}
