"""Bodies that a client has compressed: decoded here, within bounds, because a model that cannot be read has no slot.

Ollama decodes zstd on `/v1/responses` alone (`ResponsesMiddleware`), which Codex sends; the backend gets every body
plain. More than Ollama itself accepts after decoding is refused.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from router.proxy.refusal import Cause, Refusal
from router.proxy.scan import Body

MOST = 20 << 20
"""Bytes of a decoded body (`maxDecompressedBodySize` in Ollama's `middleware/openai.go`)."""
_WINDOW = 8 << 20
_PIECE = 1 << 18
_KNOWN = ("zstd", "gzip", "deflate")


def coding(field: bytes) -> str:
    """What a Content-Encoding field says, "" for plain. Raises Refusal(415) for a coding that is not decoded here."""
    name = field.decode("latin-1").strip().lower().replace("x-gzip", "gzip")
    if name in ("", "identity"):
        return ""
    if name not in _KNOWN:
        raise Refusal(
            415,
            f"the body's Content-Encoding {name[:64]!r} is not understood; send it plain or with one of "
            + ", ".join(_KNOWN),
            headers=(("Accept-Encoding", ", ".join(_KNOWN)),),
            close=True,
        )
    return name


def decoded(body: Body, name: str, most: int) -> bytearray:
    """The plain body. Raises Refusal: 413 when it has more than `most` bytes, 400 when it cannot be decoded."""
    plain = bytearray()
    try:
        for piece in _zstd(body) if name == "zstd" else _zlib(body, 31 if name == "gzip" else 15):
            plain += piece
            if len(plain) > most:
                raise Refusal(
                    413,
                    f"the body has more than {most} bytes when it is decoded",
                    close=True,
                    reason=Cause.TOO_LARGE,
                )
    except ValueError as error:
        raise Refusal(400, f"the body cannot be decoded as {name}: {error}") from error
    return plain


def _zlib(body: Body, window: int) -> Iterator[bytes]:
    decoder = zlib.decompressobj(window)
    try:
        rest = decoder.decompress(body, _PIECE)
        while True:
            yield rest
            if decoder.eof:
                return
            if not (rest or decoder.unconsumed_tail):
                raise ValueError("it ends too early")
            rest = decoder.decompress(decoder.unconsumed_tail, _PIECE)
    except zlib.error as error:
        raise ValueError(str(error)) from error


def _zstd(body: Body) -> Iterator[bytes]:
    import zstandard  # few clients send it: imported for the first that does

    decoder = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    try:
        size = zstandard.get_frame_parameters(bytes(body[:32])).content_size
        got = 0
        with decoder.stream_reader(body, read_across_frames=True) as reader:
            while piece := reader.read(_PIECE):
                got += len(piece)
                yield piece
        if size not in (zstandard.CONTENTSIZE_UNKNOWN, zstandard.CONTENTSIZE_ERROR) and got < size:
            raise ValueError("it ends too early")
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
