"""How far an answer has come that is handed over by callbacks."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final


class Step(Enum):
    """What is to be done next."""

    DONE = auto()
    """Nothing: the whole answer was handed over."""
    MORE = auto()
    """Go on when the backend's connection calls again: it has more to send."""
    WAIT = auto()
    """Let a task go on: something else must be waited for, or a failure explained."""


# A member of an enumeration costs a call of the standard library each time it is named (Python 3.11).
DONE: Final = Step.DONE
MORE: Final = Step.MORE
WAIT: Final = Step.WAIT
