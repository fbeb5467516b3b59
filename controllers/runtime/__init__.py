"""The operator as a whole: built from its settings, started, stopped.

I own the wiring and nothing else: `clients` is what the process is connected to, `wiring` the controllers over it,
`loops` the list of what they do again and again, `watches` what is watched, `supervisor` the coroutines that run for
ever, `app` start and stop. My root is
operator/main.py, which gives me the handlers of kinds; no other module may import me.
"""
