"""Public mails: the test suites of mail libraries, read by the product and beside Python's `email`; prints JSON.

    python -m bench.connectors.mailcorpus [--differences] [--cache FOLDER]

The mails are in no commit: they are fetched into the cache, by the clients of their registries and in the versions
below. For each field the share of mails in which both readers agree, with what differs; the parts that a reader lost;
and whether a mail reads the same with LF, CRLF and CR.
"""

from __future__ import annotations

import argparse
import email
import email.policy
import hashlib
import json
import mailbox
import os
import re
import subprocess
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Iterator
from email.message import EmailMessage, Message
from pathlib import Path
from typing import Any

from text import charsets, mail, mail_body, mail_headers, mail_parts

GO = ("github.com/jhillyerd/enmime/v2@v2.1.0", "github.com/mnako/letters@v0.2.3")
CRATES = {"mail-parser": "0.11.9"}
_HEADERS = ("message-id", "subject", "from", "to", "date")
_LEAST_HEADERS = 2
_FIELD = re.compile(rb"^[!-9;-~]+:", re.MULTILINE)


def fetched(cache: Path) -> Iterator[Path]:
    """The folders with the mails."""
    yield Path(sysconfig.get_paths()["stdlib"]) / "test" / "test_email" / "data"
    for module in GO:
        done = subprocess.run(
            ["go", "mod", "download", "-json", module], capture_output=True, text=True, check=True, cwd=cache
        )
        yield Path(json.loads(done.stdout)["Dir"])
    for name, version in CRATES.items():
        place = cache / f"{name}-{version}"
        if not place.exists():
            (place / "src").mkdir(parents=True)
            (place / "src" / "lib.rs").touch()
            manifest = f'[package]\nname = "x"\nversion = "0.1.0"\n[dependencies]\n{name} = "={version}"\n'
            (place / "Cargo.toml").write_text(manifest)
        subprocess.run(["cargo", "vendor", "-q"], check=True, cwd=place, capture_output=True)
        yield place / "vendor" / name


def mails(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Each mail once, with a name."""
    seen = set[bytes]()
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.suffix.lower() not in ("", ".eml", ".txt", ".raw", ".msg", ".mbox", ".golden"):
            continue
        raw = path.read_bytes()
        every = [raw]
        if path.suffix == ".mbox" or (raw.startswith(b"From ") and raw.count(b"\n\nFrom ") > 1):
            every = [one.as_bytes() for one in mailbox.mbox(str(path))]
        for number, one in enumerate(every):
            head = one.lstrip(b"\xef\xbb\xbf\r\n").replace(b"\r\n", b"\n").replace(b"\r", b"\n").partition(b"\n\n")[0]
            digest = hashlib.sha256(one).digest()
            if digest not in seen and len(_FIELD.findall(head)) >= _LEAST_HEADERS and b"\0" not in head:
                seen.add(digest)
                yield f"{path.relative_to(folder)}#{number}", one


def library(raw: bytes) -> dict[str, Any]:
    """What Python's `email` says."""
    message = email.message_from_bytes(raw, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    said: dict[str, Any] = {}
    for name in _HEADERS:
        try:
            said[name] = _plain(name, str(message.get(name, "")))
        except Exception as error:  # noqa: BLE001  # it has bugs of its own
            said[name] = repr(error)
    leaves = [part for part in _leaves(message) if part.get_payload()]
    said["leaves"] = len(leaves)
    said["attachments"] = sum(1 for part in leaves if part.get_content_disposition() == "attachment")
    return said


def _leaves(part: Message) -> Iterator[Message]:
    if part.is_multipart() and part.get_content_maintype() != "message":
        for one in part.get_payload():
            yield from _leaves(one)  # type: ignore[arg-type]
    else:
        yield part


def product(raw: bytes) -> dict[str, Any]:
    """What the product says; the leaves are those of its own parts."""
    root, _, _ = mail_parts.root(raw)
    values: dict[str, str] = {}
    for name, value in root.fields:
        values.setdefault(name.lower(), value)
    said: dict[str, Any] = {
        name: _plain(name, mail_headers.readable(name, values[name]) if name in values else "") for name in _HEADERS
    }
    leaves = [part for part in _parts(root) if part.body]
    said["leaves"] = len(leaves)
    said["attachments"] = sum(1 for part in leaves if part.attached)
    return said


def _parts(part: mail_parts.Part) -> Iterator[mail_parts.Part]:
    children = part.children() if part.multipart else []
    for one in children:
        yield from _parts(one)
    if not children:
        yield part


def lost(raw: bytes) -> list[str]:
    """Parts whose content is neither text nor a file."""
    root, _, _ = mail_parts.root(raw)
    shown = mail_body.read(root)
    there = " ".join("\n".join([*shown.texts, *(one.text for one in shown.events)]).split())
    bodies = {one.body for one in shown.files}
    sums = {len(body) for body in bodies}
    gone = []
    for part in _parts(root):
        body = part.body
        words = charsets.decode(body, part.charset).text.split()
        if (
            not body.strip()
            or part.kind in mail_body._SIGNATURES
            or (part.kind in mail_body._FORMS and not part.attached)
        ):
            continue
        in_text = bool(words) and " ".join(words[:3]) in there
        kept = body in bodies or len(body) in sums or body.replace(b"\r\n", b"\n") in bodies
        text = charsets.decode(body, part.charset).text.encode()
        kept = kept or text in bodies or text.replace(b"\r\n", b"\n") in bodies
        opened = part.kind.endswith("ms-tnef") or mail_parts.signed(part)
        if not (in_text or kept or opened or part.kind == mail_parts.CALENDAR):
            gone.append(f"{part.path} {part.kind}")
    return gone


def _plain(name: str, value: str) -> str:
    text = "".join(value.split()).casefold()
    if name == "date" and (when := mail_headers.moment(value)) is not None:
        return when.isoformat()
    return re.sub(r'["\\]', "", text)


def _alike(raw: bytes) -> bool:
    lines = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"\0" in raw or b"binary" in raw[:20000].lower():
        return True
    read = [mail.read(lines.replace(b"\n", end)) for end in (b"\n", b"\r\n", b"\r")]
    return all((one.text, [(file.name, file.body) for file in one.files]) ==
               (read[0].text, [(file.name, file.body) for file in read[0].files]) for one in read)  # fmt: skip


def main() -> None:
    """See the module."""
    options = argparse.ArgumentParser()
    options.add_argument("--differences", action="store_true")
    options.add_argument("--cache", default=os.path.expanduser("~/.cache/jervis/mails"))
    given = options.parse_args()
    cache = Path(given.cache)
    cache.mkdir(parents=True, exist_ok=True)
    count, agree, differences = 0, Counter[str](), list[dict[str, Any]]()
    failed, gone, unlike, empty = list[str](), list[str](), list[str](), list[str]()
    began, slowest = time.process_time(), (0.0, "")
    ours = theirs = 0.0
    for folder in fetched(cache):
        for name, raw in mails(folder):
            count += 1
            try:
                at = time.process_time()
                read = mail.read(raw)
                spent = time.process_time() - at
                ours, slowest = ours + spent, max(slowest, (spent, name))
                mine = product(raw)
                gone += [f"{name}: {one}" for one in lost(raw)]
                unlike += [] if _alike(raw) else [name]
            except Exception as error:  # noqa: BLE001  # a mail that fails is what is counted
                failed.append(f"{name}: {error!r}")
                continue
            at = time.process_time()
            other = library(raw)
            theirs += time.process_time() - at
            empty += [name] if not read.body and not read.files and other["leaves"] else []
            for key, value in mine.items():
                agree[key] += value == other[key]
                if value != other[key]:
                    differences.append({"mail": name, "field": key, "product": value, "library": other[key]})
    json.dump(
        {
            "mails": count,
            "failed": failed,
            "lost": gone,
            "nothing shown": empty,
            "differ by line end": unlike,
            "agree with email": {key: round(value / count, 4) for key, value in agree.items()},
            "ms a mail": round(1000 * ours / max(1, count), 2),
            "slowest": [round(slowest[0] * 1000, 1), slowest[1]],
            "seconds": round(time.process_time() - began, 1),
            **({"differences": differences} if given.differences else {}),
        },
        sys.stdout,
        indent=1,
        ensure_ascii=False,
    )


if __name__ == "__main__":
    main()
