"""What can go wrong here, by retry meaning.

Unavailable  Operational  the apiserver is away or busy
Conflict     Operational  the object kept changing under our hands
Timeout      Operational  the wait is over, the task is not
NotFound     Permanent    no such object
Refused      Permanent    the apiserver does not accept the object
Forbidden    Permanent    the caller's rights do not suffice
Misplaced    Permanent    the command does not fit the state of the task
Unusable     Permanent    a flag, a file or a kubeconfig that cannot be used
"""

from __future__ import annotations

from crds import errors


class Unavailable(errors.Operational):
    """The apiserver did not answer, or asks for patience."""


class Conflict(errors.Operational):
    """The object changed every time it was about to be written."""


class Timeout(errors.Operational):
    """The task has not ended within the time that was given."""


class NotFound(errors.Permanent):
    """There is no such object."""


class Refused(errors.Permanent):
    """The apiserver found the object invalid, or it exists already."""


class Forbidden(errors.Permanent):
    """Not allowed, or not known to the apiserver."""


class Misplaced(errors.Permanent):
    """The task is in no state in which this makes sense."""


class Unusable(errors.Permanent):
    """What was given on the command line cannot be used."""
