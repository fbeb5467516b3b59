"""How Ollama shares its memory: what is loaded, who waits, who is thrown out.

Owns: `pool`, the pure state machine (time is an argument, effects are return values), and `engine`, the asyncio shell
that gives it timers and wakes the waiting requests. Callers: `server`. Never answers a prompt, never knows HTTP.
"""
