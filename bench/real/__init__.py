"""A real model measured on the main job: documents with planted facts go in, and what became of them is counted.

Owns: the documents (`corpus`), what an answer is worth as it was sent (`sent`), what was stored of it (`facts`), one
pass (`passes`). The knowledge base under measurement and the record of calls are `bench.qualify`'s.
Callers: `python -m bench.real`, tests. What is right stands in the documents: no rule here judges a model's words.
"""
