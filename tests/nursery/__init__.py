"""Programs of ours as processes without the second that their imports take: forked from one that has imported them.

I own the server (`__main__.py`) and the way to it (`children.py`). Any test that starts a program may call me. I never
share state between children: each begins where `python PROGRAM` begins, with its own environment, files and signals.
"""
