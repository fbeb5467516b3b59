"""Say in one line what is missing before a virtual environment is made: `python3 hack/python_version.py`."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 -- the very reason for this file
    sys.exit(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}; set PYTHON=/path/to/python3.11")
try:
    import ensurepip  # noqa: F401 -- Debian splits it off, and venv fails late and long without it
except ImportError:
    sys.exit("this Python cannot make virtual environments; on Debian: apt-get install python3-venv")
