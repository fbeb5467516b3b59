"""The state of a task's namespace for its run: read-only, bounded, without secrets.

I own: which objects are read (`reading`), what of them is shown (`reduce`, `hiding`, both pure), and the two paths on
the port of the history (`http`). My callers: `controllers.runtime.app`. What I never do: read Secrets, ConfigMaps or
another namespace than the one in a verified token, or write.
"""
