"""`python -m kb` in mode "write", with turns that expire in seconds: TURN_SECONDS, which no setting may be."""

from __future__ import annotations

import asyncio
import os

from kb import settings
from kb.service import serving

if __name__ == "__main__":
    config = settings.Settings().model_copy(update={"turn_seconds": float(os.environ["TURN_SECONDS"])})
    asyncio.run(serving.serve(config))
