"""Pure functions on text: quotations, mails with their headers and invitations, and streams of JSON lines.

Who may call me: every package but `crds`. I import nothing of ours but `crds`, and do no I/O.
"""
