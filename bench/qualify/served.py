"""`python served.py 2026-11-23T08:00:00+00:00`: `python -m kb` of the checkout on PYTHONPATH, with a clock of its own.

The clock begins at the given time and goes on from there, so that "by Friday" means the same day in every run. Nothing
else differs from the program. It is run as a script, not as a module: another checkout need not have it.
"""

from __future__ import annotations

import sys
import time
from datetime import datetime, timedelta

from kb import __main__ as program
from kb.service import serving


def main() -> int:
    """The exit status of the program."""
    today, started = datetime.fromisoformat(sys.argv.pop(1)), time.monotonic()

    def now() -> datetime:
        return today + timedelta(seconds=time.monotonic() - started)

    serving._now = now  # the one clock of the process, which its settings do not have
    return program.main()


if __name__ == "__main__":
    sys.exit(main())
