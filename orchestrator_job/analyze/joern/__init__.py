"""What the image `jervis-joern` holds beside Joern: `analyze` (the container's command), `Export.scala`, `query.sc`.

Only the standard library of Python: the image has nothing of ours but this folder.
"""
