"""Why a recording has no transcript.

Unusable  Permanent  `field` says what: the recording ("audio"), the model or the engine
"""

from __future__ import annotations

from crds import errors


class Unusable(errors.Permanent):
    """The recording, the model or the engine cannot be used; another try would end the same way."""
