"""Sources in the encodings in which they were saved."""

from __future__ import annotations

import pytest

from text import source_text

JAPANESE = "# \u8868\u793a\u3059\u308b\nx = '\u30bd'\n"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", ""),
        ("# \u010de\u0161tina\n".encode(), "# \u010de\u0161tina\n"),
        (b"\xef\xbb\xbfx = 1\r\n", "x = 1\r\n"),
        ("x = '\u4e2d'\n".encode("utf-16"), "x = '\u4e2d'\n"),
        ("x = 1\n".encode("utf-16-be").join([b"\xfe\xff", b""]), "x = 1\n"),
        ("x = 1\n".encode("utf-32"), "x = 1\n"),
        (b"\xff\xfex\0=", "x\N{REPLACEMENT CHARACTER}"),
        ("# \xe9t\xe9\n".encode("latin-1"), "# \xe9t\xe9\n"),
        (JAPANESE.encode("shift_jis"), JAPANESE),
        (JAPANESE.encode("euc_jp"), JAPANESE),
        ("# -*- coding: koi8-r -*-\n# \u0434\u0430\n".encode("koi8-r"), "# -*- coding: koi8-r -*-\n# \u0434\u0430\n"),
        (
            "#!/x\n# vim: set fileencoding=cp1251 :\n\u0434".encode("cp1251"),
            "#!/x\n# vim: set fileencoding=cp1251 :\n\u0434",
        ),
        # A declaration that would make another program of ASCII, or takes the square of the length, is not followed.
        (b"# coding: utf-7\n+AGE- \xe9", "# coding: utf-7\n+AGE- \xe9"),
        (b"# coding: punycode\n\xe9", "# coding: punycode\n\xe9"),
        (b"# coding: no-such\n\xe9", "# coding: no-such\n\xe9"),
        (b"\n\n# coding: koi8-r\n\xe9", "\n\n# coding: koi8-r\n\xe9"),
    ],
)
def test_text_is_what_its_editor_showed(raw: bytes, text: str) -> None:
    assert source_text.decode(raw) == text
