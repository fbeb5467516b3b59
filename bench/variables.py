"""Variables of the environment that benchmarks share with the tests: where the data services are."""

from __future__ import annotations

import os

_REMEDY = """{name} is not set: start the data services and take their addresses, then try again:
  make services-up
  eval "$(.venv/bin/python -m hack.cluster env)" && unset KUBECONFIG"""


def required(name: str) -> str:
    """The variable's value; without it the program ends with status 1 and says what to do."""
    value = os.environ.get(name)
    if not value:
        raise SystemExit(_REMEDY.format(name=name))
    return value
