"""The pod that analyses the code of a repository: cloned, read by Joern without any token, reported.

I own: `clone` and `report`, the first and the last container (`python -m orchestrator_job.analyze clone|report`), what
they leave for each other below the work volume (`layout`), and `joern/`, what the image `jervis-joern` runs between
them; that image has nothing else of this tree. Who may call me: the Job that `controllers` makes. What I never do:
show a token to Joern, which parses files of strangers, or fail for what only the analysis lacks: a failure is reported.

Source: seed 001 "Joern CPG Pipeline"; decision 0130.
"""
