"""What can go wrong while the local cluster is set up.

Failure         one clear sentence for the terminal, with the remedy
 |- Missing     a program or package of the machine is missing
 |- NotReady    something was started and did not become ready in time
"""

from __future__ import annotations


class Failure(Exception):  # noqa: N818 -- the command failed, whatever the error was; said to a person
    """The command cannot go on; the text says why and what to do."""


class Missing(Failure):
    """A prerequisite of the machine is missing; the text names what to install."""


class NotReady(Failure):
    """A started process died or did not answer in time; the text ends with the last lines of its log."""
