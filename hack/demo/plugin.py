"""`kubectl jervis` out of the checkout, for a shell that has no installed one."""

from __future__ import annotations

import shlex
import sys

from hack.demo.settings import Settings

NAME = "kubectl-jervis"


def write(wanted: Settings) -> str:
    """Put the plugin into our state directory; the folder that PATH has to name."""
    folder = wanted.state / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / NAME
    checkout, python = shlex.quote(str(wanted.checkout)), shlex.quote(sys.executable)
    program.write_text(f'#!/bin/sh\nPYTHONPATH={checkout} exec {python} -m cli "$@"\n')
    program.chmod(0o755)
    return str(folder)
