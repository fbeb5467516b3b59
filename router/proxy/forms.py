"""Which model a form names: bodies of type multipart/form-data, as for transcriptions and edits of images (RFC 7578).

The form passes as it is; only its field `model` is read. Its files are stepped over, not parsed.
"""

from __future__ import annotations

from email.message import Message
from email.parser import BytesHeaderParser

from router import models
from router.proxy import body
from router.proxy.body import Peek
from router.proxy.scan import Body

_FIELDS = 64
"""Fields that are looked at; more name no model."""
_HEAD = 4096
"""Bytes of a field's header."""
_PARSER = BytesHeaderParser()


def boundary(content_type: str) -> bytes:
    """The line between two fields of a form; empty for a body that is none."""
    header = Message()
    header["Content-Type"] = content_type
    if header.get_content_type() != "multipart/form-data":
        return b""
    return (header.get_boundary() or "").encode("latin-1", "replace")


async def peek(data: Body, line: bytes) -> Peek:
    """Which model a form with this boundary names."""
    name = await body.in_thread(_model, data, line) if len(data) > body.SMALL else _model(data, line)
    return Peek(asked=name, model=models.normalise(name)) if name else body.NOTHING


def _model(data: Body, line: bytes) -> str:
    delimiter = b"--" + line
    start = data.find(delimiter)
    for _ in range(_FIELDS):
        if start < 0:
            break
        head, content = start + len(delimiter) + 2, data.find(b"\r\n\r\n", start)
        if content < 0 or content - head > _HEAD:
            break
        end = data.find(b"\r\n" + delimiter, content + 2)
        field = _PARSER.parsebytes(bytes(data[head:content]))
        if field.get_param("name", header="content-disposition") == "model" and not field.get_filename():
            value = bytes(data[content + 4 : end if end >= 0 else len(data)])
            return value[: 4 * body.LONGEST_NAME].decode("utf-8", "replace")[: body.LONGEST_NAME].strip()
        start = end + 2 if end >= 0 else -1
    return ""
