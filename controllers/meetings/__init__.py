"""Jobs that transcribe meetings.

What I own: the manifest of such a Job (`job`), and the loop that makes one for each uploaded recording and says in
MongoDB what became of it (`reconcile`).

Who may call me: `controllers.runtime`. What I never do: read a recording, or write the state that the pod reports
itself.

Source: seed 001 "MeetingContinuousIndexer" (Whisper as a Kubernetes Job).
"""
