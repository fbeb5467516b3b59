"""A mail server of a test's own on loopback: EHLO, STARTTLS, AUTH PLAIN, MAIL, RCPT, DATA (RFC 5321, 3207, 4954)."""

from __future__ import annotations

import base64
import email
import email.policy
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage


@dataclass
class Box:
    """Takes mail while `refuses` is empty; after it has taken one it answers `stall` seconds later, or, if it `drops`,
    never. `slow`: seconds before a recipient is answered; `full`: what a mail is refused with at its end. Once it is
    `released`, nothing is waited for any more. `connections`: how many it has taken."""

    port: int = 0
    login: tuple[str, str] | None = None
    refuses: str = ""
    stall: float = 0.0
    slow: float = 0.0
    full: str = ""
    drops: bool = False
    released: threading.Event = field(default_factory=threading.Event)
    connections: int = 0
    recipients: list[str] = field(default_factory=list)
    mails: list[EmailMessage] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)
    """Of each mail: whether it came over TLS."""


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, context: ssl.SSLContext | None, *, at_once: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Conversation)
        self.context, self.at_once = context, at_once
        self.box = Box(self.server_address[1])

    def verify_request(self, request: object, client_address: object) -> bool:
        self.box.connections += 1
        return True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that does not trust the certificate is what some tests are about."""


class _Conversation(socketserver.StreamRequestHandler):
    server: Server
    timeout = 300

    def handle(self) -> None:
        box, self.secure, known = self.server.box, False, False
        if self.server.at_once:
            self._encrypt()
        self._say("220 mail of the test")
        while line := self.rfile.readline().decode().strip():
            verb, _, rest = line.partition(" ")
            match verb.upper():
                case "EHLO":
                    self._say("250-mail of the test")
                    more = [] if self.secure or self.server.context is None else ["STARTTLS"]
                    more += ["AUTH PLAIN"] if box.login else []
                    for one in more:
                        self._say(f"250-{one}")
                    self._say("250 8BITMIME")
                case "STARTTLS" if self.server.context is not None:
                    self._say("220 go on")
                    self._encrypt()
                case "AUTH":
                    _, user, password = base64.b64decode(rest.partition(" ")[2]).decode().split("\0")
                    known = (user, password) == box.login
                    self._say("235 welcome" if known else "535 wrong")
                case "MAIL":
                    self._say("530 log in first" if box.login and not known else "250 ok")
                case "RCPT":
                    box.recipients.append(rest)
                    box.released.wait(box.slow)
                    self._say(box.refuses or "250 ok")
                case "DATA":
                    self._say("354 go on")
                    self._take(keep=not box.full)
                    box.released.wait(box.stall)
                    if box.drops:
                        return
                    if box.full:
                        self._say(box.full)
                        continue
                    self._say("250 taken")
                case "QUIT":
                    self._say("221 bye")
                    return
                case _:
                    self._say("250 ok")

    def finish(self) -> None:
        super().finish()
        self.request.close()  # the TLS socket is no one else's

    def _take(self, *, keep: bool) -> None:
        lines = []
        while (line := self.rfile.readline()) != b".\r\n":
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        mail = email.message_from_bytes(b"".join(lines), policy=email.policy.SMTP)
        assert isinstance(mail, EmailMessage)
        if not keep:
            return
        self.server.box.encrypted.append(self.secure)
        self.server.box.mails.append(mail)

    def _encrypt(self) -> None:
        assert self.server.context is not None
        self.request = self.server.context.wrap_socket(self.request, server_side=True)
        self.rfile, self.wfile = self.request.makefile("rb"), self.request.makefile("wb", 0)
        self.secure = True

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


@contextmanager
def serving(context: ssl.SSLContext | None = None, *, at_once: bool = False) -> Iterator[Box]:
    """`context`: with TLS, on request or, `at_once`, from the beginning."""
    with Server(context, at_once=at_once) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server.box
        finally:
            server.box.released.set()
            server.shutdown()
