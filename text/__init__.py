"""Pure functions on text: its words, quotations, mails with headers and invitations, sources, streams of JSON lines.

Who may call me: every package but `crds`. I import nothing of ours but `crds`, and do no I/O.
"""
