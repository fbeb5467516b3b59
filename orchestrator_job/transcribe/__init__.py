"""The pod that transcribes one meeting: it gets the recording, runs an engine, and hands the segments back.

What I own: the engines (`engine`) and the calls to the sources process (`calls`). My root is `__main__`
(`python -m orchestrator_job.transcribe`).

Who may call me: the Job that `controllers.meetings` makes. What I never do: reach MongoDB, the router, the knowledge
base or a hub of models: the pod opens files of strangers, so it has the token of its one meeting and nothing else.

Source: seed 001 "MeetingContinuousIndexer".
"""
