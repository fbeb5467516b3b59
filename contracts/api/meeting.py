"""Meetings: their states, the transcript that a pod returns, and what the API of the sources process says.

    RECORDING -> UPLOADED -> TRANSCRIBING -> TRANSCRIBED -> INDEXED        FAILED at any step, with a reason

Source: seed 001 "MeetingContinuousIndexer".
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from crds.model import Model, Time
from crds.values import Identifier, ObjectName, OptionalIdentifier

MOST_BYTES = 2 << 30
"""Of a recording."""
MOST_SEGMENTS = 50_000
MOST_TRANSCRIPT_BYTES = 8 << 20
"""Of a transcript: it and its correction must fit into one document of MongoDB (16 MiB)."""
MEETING_LABEL = "jervis.dev/meeting"
"""On Jobs and pods: the id of the meeting that they transcribe."""
SHORTEST_TOKEN = 32
SHA256 = r"^[0-9a-f]{64}$"
ID = r"^[0-9a-f]{32}$"
Text = Annotated[str, StringConstraints(max_length=256, strip_whitespace=True)]


class State(StrEnum):
    """How far a meeting is."""

    RECORDING = "RECORDING"
    UPLOADED = "UPLOADED"
    TRANSCRIBING = "TRANSCRIBING"
    TRANSCRIBED = "TRANSCRIBED"
    INDEXED = "INDEXED"
    FAILED = "FAILED"


class Correction(StrEnum):
    """What became of the correction of a transcript."""

    OFF = "Off"
    PENDING = "Pending"
    DONE = "Done"
    FAILED = "Failed"


class Draft(Model):
    """A new meeting, as `POST /api/v1/meetings` takes it."""

    model_config = ConfigDict(extra="forbid")

    namespace: ObjectName
    """Namespace of the Connection."""
    connection: ObjectName
    """Name of a Connection of type Meeting; the meeting belongs to its client."""
    title: Annotated[str, StringConstraints(min_length=1, max_length=256, strip_whitespace=True)]
    """What it is called."""
    date: Time | None = None
    """When it began."""
    duration_seconds: Annotated[int, Field(ge=0, le=7 * 86_400)] = 0
    """How long it was; 0: not known."""
    type: Text = ""
    """What kind of meeting, for example standup."""
    language: Annotated[str, Field(pattern=r"^([a-z]{2,3})?$")] = ""
    """Language that is spoken (ISO 639), empty: the engine finds out."""
    participants: Annotated[tuple[Text, ...], Field(max_length=100)] = ()
    """Who was there."""
    client_id: OptionalIdentifier = ""
    """If given, it must be the Connection's."""
    project_id: OptionalIdentifier = ""
    """If given, it must be the Connection's."""


class Segment(Model):
    """A stretch of speech; `start` and `end` are seconds from the beginning of the recording."""

    start: Annotated[float, Field(ge=0, le=10_000_000, allow_inf_nan=False)]
    end: Annotated[float, Field(ge=0, le=10_000_000, allow_inf_nan=False)]
    text: Annotated[str, Field(max_length=20_000)]
    speaker: Text = ""


class Transcript(Model):
    """What an engine made of a recording. `simulated`: the text was not heard, a script says it."""

    engine: Text
    model: Text = ""
    language: Text = ""
    duration_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0
    simulated: bool = False
    segments: Annotated[tuple[Segment, ...], Field(max_length=MOST_SEGMENTS)] = ()


class Problem(Model):
    """Why a pod could not transcribe. `permanent`: another try would end the same way."""

    reason: Annotated[str, Field(min_length=1, max_length=512)]
    permanent: bool = False


class Change(Model):
    """A correction: the words `before` at `at` seconds became `after`; `segment` counts from 0."""

    segment: Annotated[int, Field(ge=0)]
    at: float
    before: Annotated[str, Field(alias="from")]
    after: Annotated[str, Field(alias="to")]


class Meeting(Model):
    """A meeting as the API shows it."""

    id: str
    namespace: str
    connection: str
    client_id: Identifier
    project_id: OptionalIdentifier = ""
    group_id: OptionalIdentifier = ""
    title: str
    date: Time | None = None
    duration_seconds: int = 0
    type: str = ""
    language: str = ""
    participants: tuple[str, ...] = ()
    state: State
    reason: str = ""
    """Why it failed, or why the last try did."""
    attempt: int = 0
    """How many transcriptions were started."""
    created_at: Time
    bytes: int = 0
    """Of the recording that are stored."""
    length: int | None = None
    """Of the recording, once an upload said it."""
    media_type: str = ""
    """Found by its first bytes."""
    sha256: str = ""
    correction: Correction = Correction.OFF
    correction_reason: str = ""
    changes: int = 0
    """Words that the correction replaced."""
    task: str = ""
    """The PendingTask, once it exists."""


class Page(Model):
    """Meetings, the newest first."""

    meetings: tuple[Meeting, ...]
    truncated: bool = False


class Told(Model):
    """The transcript of a meeting: as it was heard, and as it is indexed."""

    transcript: Transcript
    """As the engine heard it."""
    corrected: tuple[Segment, ...] = ()
    """As it is indexed; empty without a correction."""
    changes: tuple[Change, ...] = ()
    refused: int = 0
    """Segments whose correction was refused, because it changed too much."""
