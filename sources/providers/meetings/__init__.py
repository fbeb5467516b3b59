"""Meetings: their recordings in GridFS, their states, and the correction of their transcripts.

What I own: the collection of meetings (`store`), uploads (`audio`), the endpoints (`http`), corrections (`correction`),
and the loop that corrects and notes what is indexed (`worker`). The task of a transcribed meeting is made like that of
any item (`sources.providers.meetings.reading`).

Who may call me: `sources` and `controllers.meetings` (the operator's part, which makes the Jobs).

What I never do: run a model of speech, or write to the Kubernetes API.

Source: seed 001 "MeetingContinuousIndexer"; seed 000 "Correction Agent".
"""
