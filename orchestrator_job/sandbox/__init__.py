"""The two containers beside a command of an agent: what brings its workspace, and what takes its result.

I own: `fetch` and `report` (`python -m orchestrator_job.sandbox fetch|report`). Who may call me: the Job that
`controllers.sandbox` makes. What I never do: run anything of the workspace, or obey its settings: a command may have
left any file there.
"""
