"""Short texts that several of these models hold."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]


Name = Annotated[str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True)]
