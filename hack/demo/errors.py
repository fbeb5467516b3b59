"""What can go wrong while the demonstration runs.

Failure            one clear sentence for the terminal, with the remedy
 |- Refused        kubectl or helm said no; the text is theirs
"""

from __future__ import annotations


class Failure(Exception):  # noqa: N818 -- named as hack.cluster's is: the command's failure, whatever the error
    """The demonstration cannot go on; the text says why and what to do."""


class Refused(Failure):
    """A command ended with an error; `output` is what it said."""

    def __init__(self, command: str, output: str) -> None:
        super().__init__(f"{command} failed: {output.strip() or 'no output'}")
        self.output = output
