"""The operator as a whole: built from its settings, started, stopped.

I own the wiring and nothing else: `outside` is what the process is connected to, `parts` the controllers over it,
`collections` what is watched, `crew` the coroutines that run for ever, `life` start and stop. My root is
operator/main.py, which gives me the handlers of kinds; nobody else may import me.
"""
