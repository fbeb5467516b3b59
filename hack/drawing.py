"""`python -m hack.drawing TEXT PICTURE`: draw the text of a file as a screenshot, a scan, or too blurred to be read.

Tests, the demonstration and the examples make their images with it, so that none is kept in the repository. The same
text gives the same pixels. PICTURE ends in .png, .jpg, .gif or .webp.
"""

from __future__ import annotations

import argparse
import io
import random
import sys
import textwrap
from pathlib import Path
from typing import Literal, get_args

from PIL import Image, ImageDraw, ImageFilter, ImageFont

Look = Literal["screen", "scan", "blurred"]
_FONT = Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")
_FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".gif": "GIF", ".webp": "WEBP"}
_LETTERS = 24
_SPACING = 10
_MARGIN = 40
_COLUMNS = 84
_SLANT = 0.6
_GRAIN = 0.12
_BLUR = 8


class Unable(Exception):  # noqa: N818 -- named for what is wrong
    """The text cannot be drawn here; the message says what to install."""


def picture(text: str, *, name: str = ".png", look: Look = "screen") -> bytes:
    """The file `name`: dark letters on white, long lines wrapped. Raises `Unable` without a font for its letters."""
    lines = "\n".join(part for line in text.strip().split("\n") for part in textwrap.wrap(line, _COLUMNS) or [""])
    font = _font(lines)
    blank = ImageDraw.Draw(Image.new("L", (1, 1)))
    box = blank.multiline_textbbox((0, 0), lines, font=font, spacing=_SPACING)
    drawn = Image.new("L", (int(box[2]) + 2 * _MARGIN, int(box[3]) + 2 * _MARGIN), 255)
    ImageDraw.Draw(drawn).multiline_text((_MARGIN, _MARGIN), lines, fill=20, font=font, spacing=_SPACING)
    if look == "scan":
        drawn = _scanned(drawn)
    elif look == "blurred":
        drawn = drawn.filter(ImageFilter.GaussianBlur(_BLUR))
    made = io.BytesIO()
    drawn.convert("RGB").save(made, _FORMATS[Path(f"x{name}").suffix.lower()])
    return made.getvalue()


def _font(text: str) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    if _FONT.exists():
        return ImageFont.truetype(str(_FONT), _LETTERS)
    if not text.isascii():
        raise Unable(f"no font for {text[:40]!r}: install the Debian package fonts-dejavu-core (make programs)")
    return ImageFont.load_default(_LETTERS)


def _scanned(drawn: Image.Image) -> Image.Image:
    """As a scanner gives a page: a little aslant, grey and grainy."""
    turned = drawn.rotate(_SLANT, expand=True, fillcolor=245, resample=Image.Resampling.BICUBIC)
    width, height = turned.size
    grain = Image.frombytes("L", turned.size, random.Random(0).randbytes(width * height))  # noqa: S311 -- no secret
    return Image.blend(turned, grain, _GRAIN).filter(ImageFilter.GaussianBlur(0.6))


def main(arguments: list[str]) -> int:
    """Exit status: 0 the picture is written, 1 not (one line on stderr says why)."""
    parser = argparse.ArgumentParser(prog="python -m hack.drawing", description=__doc__)
    parser.add_argument("text", type=Path, help="a text file in UTF-8")
    parser.add_argument("picture", type=Path, help=f"the file to write, with one of {' '.join(_FORMATS)}")
    parser.add_argument("--look", choices=get_args(Look), default="screen")
    parsed = parser.parse_args(arguments)
    if parsed.picture.suffix.lower() not in _FORMATS:
        parser.error(f"{parsed.picture} ends in none of {' '.join(_FORMATS)}")
    try:
        text = parsed.text.read_text(encoding="utf-8")
        parsed.picture.write_bytes(picture(text, name=parsed.picture.name, look=parsed.look))
    except (OSError, Unable) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
