"""The BERT encoder of all-MiniLM-L6-v2 as an ONNX graph, built from its published weights.

Inputs `ids` and `mask`, both int64 [batch, tokens]; output `vectors`, float32 [batch, 384], mean-pooled over the
mask and of unit length. Architecture: 6 layers, 12 heads, hidden 384, exact GELU (the model's own config.json).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

HIDDEN = 384
_LAYERS, _HEADS = 6, 12
_HEAD_SIZE = HIDDEN // _HEADS
_EPSILON = 1e-12
_OPSET = 20  # the first one with Gelu
_IR_VERSION = 9


def build(weights: Path) -> bytes:
    """Read `model.safetensors` and return the serialised model (about 90 MB)."""
    writer = _Writer(load_file(weights))
    hidden = writer.embeddings()
    for layer in range(_LAYERS):
        hidden = writer.layer(hidden, f"encoder.layer.{layer}.")
    writer.pool(hidden)
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in ("ids", "mask")]
    output = helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["batch", HIDDEN])
    graph = helper.make_graph(writer.nodes, "all-MiniLM-L6-v2", inputs, [output], writer.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
    serialised: bytes = model.SerializeToString()
    return serialised


class _Writer:
    """Adds nodes and names their outputs."""

    def __init__(self, tensors: dict[str, NDArray[np.float32]]) -> None:
        self._tensors = tensors
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def embeddings(self) -> str:
        words = self._op("Gather", self._weight("embeddings.word_embeddings.weight"), "ids")
        shape = self._op("Shape", "ids")
        length = self._op("Gather", shape, self._number(1))
        steps = self._op("Range", self._number(0), length, self._number(1))
        places = self._op("Gather", self._weight("embeddings.position_embeddings.weight"), steps)
        kind = self._constant(self._tensors["embeddings.token_type_embeddings.weight"][0])  # a single segment
        self._mask()
        return self._norm(self._op("Add", self._op("Add", words, places), kind), "embeddings.LayerNorm.")

    def layer(self, hidden: str, prefix: str) -> str:
        attended = self._attention(hidden, prefix + "attention.self.")
        attended = self._linear(attended, prefix + "attention.output.dense.")
        hidden = self._norm(self._op("Add", attended, hidden), prefix + "attention.output.LayerNorm.")
        inner = self._op("Gelu", self._linear(hidden, prefix + "intermediate.dense."))
        outer = self._linear(inner, prefix + "output.dense.")
        return self._norm(self._op("Add", outer, hidden), prefix + "output.LayerNorm.")

    def pool(self, hidden: str) -> None:
        mask = self._op("Unsqueeze", self._mask_float, self._ints([2]))
        total = self._op("ReduceSum", self._op("Mul", hidden, mask), self._ints([1]), keepdims=0)
        count = self._op("ReduceSum", mask, self._ints([1]), keepdims=0)
        mean = self._op("Div", total, count)
        norm = self._op("ReduceL2", mean, self._ints([1]), keepdims=1)
        self.nodes.append(helper.make_node("Div", [mean, norm], ["vectors"]))

    def _mask(self) -> None:
        """0 where a token counts and a very negative number where it is padding, broadcast over heads and queries."""
        self._mask_float = self._op("Cast", "mask", to=TensorProto.FLOAT)
        inverse = self._op("Sub", self._constant(np.float32(1.0)), self._mask_float)
        bias = self._op("Mul", inverse, self._constant(np.float32(-1e9)))
        self._bias = self._op("Unsqueeze", bias, self._ints([1, 2]))

    def _attention(self, hidden: str, prefix: str) -> str:
        query, key, value = (self._heads(self._linear(hidden, prefix + part)) for part in ("query.", "key.", "value."))
        scores = self._op("MatMul", query, self._op("Transpose", key, perm=[0, 1, 3, 2]))
        scaled = self._op("Mul", scores, self._constant(np.float32(_HEAD_SIZE**-0.5)))
        weights = self._op("Softmax", self._op("Add", scaled, self._bias), axis=-1)
        mixed = self._op("Transpose", self._op("MatMul", weights, value), perm=[0, 2, 1, 3])
        return self._op("Reshape", mixed, self._ints([0, 0, HIDDEN]))

    def _heads(self, flat: str) -> str:
        return self._op(
            "Transpose", self._op("Reshape", flat, self._ints([0, 0, _HEADS, _HEAD_SIZE])), perm=[0, 2, 1, 3]
        )

    def _linear(self, source: str, prefix: str) -> str:
        # torch keeps [out, in]; MatMul wants [in, out]
        weight = self._constant(np.ascontiguousarray(self._tensors[prefix + "weight"].T))
        return self._op("Add", self._op("MatMul", source, weight), self._weight(prefix + "bias"))

    def _norm(self, source: str, prefix: str) -> str:
        scale, bias = self._weight(prefix + "weight"), self._weight(prefix + "bias")
        return self._op("LayerNormalization", source, scale, bias, axis=-1, epsilon=_EPSILON)

    def _weight(self, name: str) -> str:
        return self._constant(self._tensors[name])

    def _number(self, value: int) -> str:
        return self._constant(np.int64(value))

    def _ints(self, values: list[int]) -> str:
        return self._constant(np.array(values, dtype=np.int64))

    def _constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def _op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name
