"""The qualifier: from a document to what kind of thing it is, its fields, its chunks' knowledge and its hints.

I own: the state that is carried from phase to phase (`state`), the phases (`phases`, those of images in
`image_reading`), what they share beside it (`run_context`), and their order (`flow`). Callers: `kb.ingest.extractor`. I
never write to a store: what I make is committed by ingest.

Source: seed 003 (the whole).
"""
