"""Files and images as text: what they are by their own bytes, whether they are safe to open, and what they say.

I own: the types that are taken, the limits, the client of Tika and the question to a vision model.
Who may call me: `kb.service.http`. A file is hostile until its limits are checked; nothing is opened in this process
that a parser of ours could be led astray by: Tika parses, in a child of its own with a time and a memory limit.
"""
