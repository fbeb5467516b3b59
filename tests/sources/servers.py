"""Other mail servers on loopback: Cyrus, Courier and GreenMail, each as processes of ours with a folder of its own.

Cyrus and Courier know their places and their users when they are compiled or from /etc: their unpacked packages lie
over /usr and /etc in a mount namespace, /run and /var are empty there. Sources: cyrus.conf(5), imapd.conf(5),
makeuserdb(8), couriertcpd(1), GreenMail's page "Standalone".
"""

from __future__ import annotations

import contextlib
import imaplib
import os
import pwd
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from hack.cluster import jars, mailservers, progress
from tests import ports, waiting
from tests.sources import dovecot

USERS = tuple(f"user{number}" for number in range(24))

NAMESPACE = """set -e
mkdir -p {folder}/etc {folder}/work {folder}/var
mount -t overlay overlay -o lowerdir={files}/usr:/usr /usr
mount -t overlay overlay -o lowerdir={files}/etc:/etc,upperdir={folder}/etc,workdir={folder}/work /etc
mount -t tmpfs tmpfs /run
mount --bind {folder}/var /var
"""

_COURIER = """
mkdir -p /run/courier/authdaemon
sed -i 's/^authmodulelist=.*/authmodulelist="authuserdb"/' /etc/courier/authdaemonrc
chmod 600 /etc/courier/userdb
makeuserdb
/usr/lib/courier/courier-authlib/authdaemond &
set -a
. /etc/courier/authdaemonrc
. /etc/courier/imapd
IMAP_IDLE_TIMEOUT=1
couriertcpd -address=127.0.0.1 -nodnslookup -noidentlookup -maxperip=100 {port} \
  /usr/lib/courier/courier/imaplogin /usr/bin/imapd Maildir &
. /etc/courier/pop3d
exec couriertcpd -address=127.0.0.1 -nodnslookup -noidentlookup -maxperip=100 {pop3} \
  /usr/lib/courier/courier/courierpop3login /usr/lib/courier/courier/courierpop3d Maildir
"""

_CYRUS = """
echo 'cyrus:x:{uid}:{gid}::/var:/bin/sh' >> /etc/passwd
mkdir -p /run/cyrus/proc /run/cyrus/lock /run/cyrus/socket /var/lib/cyrus /var/spool
chown -R {uid}:{gid} /run/cyrus /var
cat > /etc/imapd.conf <<END
configdirectory: /var/lib/cyrus
partition-default: /var/spool
proc_path: /run/cyrus/proc
mboxname_lockpath: /run/cyrus/lock
defaultpartition: default
admins: cyrus
altnamespace: yes
unixhierarchysep: yes
allowplaintext: yes
autocreate_quota: 0
autocreate_post: yes
sasl_pwcheck_method: auxprop
sasl_auxprop_plugin: sasldb
sasl_mech_list: PLAIN LOGIN
sasl_sasldb_path: /var/sasldb2
popminpoll: 0
imapidlepoll: 1
specialusealways: no
servername: localhost
END
cat > /etc/cyrus.conf <<END
START {{
  recover cmd="/usr/lib/cyrus/bin/ctl_cyrusdb -r"
}}
SERVICES {{
  imap cmd="/usr/lib/cyrus/bin/imapd -U 30" listen="127.0.0.1:{port}" proto="tcp4"
  pop3 cmd="/usr/lib/cyrus/bin/pop3d -U 30" listen="127.0.0.1:{pop3}" proto="tcp4"
}}
EVENTS {{
}}
END
for user in {users}; do
  echo '{password}' | saslpasswd2 -p -c -f /var/sasldb2 -u localhost $user
done
chown {uid}:{gid} /var/sasldb2
exec /usr/lib/cyrus/bin/master -C /etc/imapd.conf -M /etc/cyrus.conf -p /run/cyrus/master.pid
"""


@dataclass(frozen=True)
class Server:
    """One server; `box` is what the names of new folders begin with, `lists` whether it has LIST-STATUS."""

    name: str
    port: int
    pop3: int
    box: str = ""
    lists: bool = False

    @property
    def url(self) -> str:
        return f"imap://127.0.0.1:{self.port}"

    @property
    def pop3_url(self) -> str:
        return f"pop3://127.0.0.1:{self.pop3}"

    @contextlib.contextmanager
    def mailbox(self, user: str) -> Iterator[imaplib.IMAP4]:
        """A client of the standard library, logged in."""
        with imaplib.IMAP4("127.0.0.1", self.port, timeout=waiting.PATIENCE) as client:
            client.login(user, dovecot.PASSWORD)
            yield client

    def put(self, *mails: bytes, folder: str = "INBOX", user: str) -> None:
        """Append mails to a folder, which is made if it is not there."""
        with self.mailbox(user) as client:
            if folder != "INBOX" and client.select(folder)[0] != "OK":
                said, why = client.create(folder)
                assert said == "OK", why
            for raw in mails:
                said, why = client.append(folder, "", "", raw)
                assert said == "OK", why


@contextlib.contextmanager
def dovecot_() -> Iterator[Server]:
    with dovecot.running() as place:
        yield Server("dovecot", place.port, place.pop3, lists=True)


@contextlib.contextmanager
def courier() -> Iterator[Server]:
    owner = pwd.getpwnam("mail")

    def prepare(folder: Path) -> None:
        secret = subprocess.run(
            ["openssl", "passwd", "-1", dovecot.PASSWORD], capture_output=True, text=True, check=True
        ).stdout.strip()
        (folder / "etc/courier").mkdir(parents=True)
        lines = []
        for user in USERS:
            home = folder / "homes" / user
            for part in ("cur", "new", "tmp"):
                (home / "Maildir" / part).mkdir(parents=True)
            subprocess.run(["chown", "-R", f"{owner.pw_uid}:{owner.pw_gid}", str(home)], check=True)
            lines.append(
                f"{user}\tuid={owner.pw_uid}|gid={owner.pw_gid}|home={home}|mail={home}/Maildir|systempw={secret}"
            )
        (folder / "etc/courier/userdb").write_text("\n".join([*lines, ""]))

    with _running(Server("courier", ports.free(), ports.free(), box="INBOX."), _COURIER, prepare) as place:
        yield place


@contextlib.contextmanager
def cyrus() -> Iterator[Server]:
    with _running(Server("cyrus", ports.free(), ports.free(), lists=True), _CYRUS, lambda _: None) as place:
        yield place


@contextlib.contextmanager
def greenmail() -> Iterator[Server]:
    place = Server("greenmail", ports.free(), ports.free())
    users = ",".join(f"{user}:{dovecot.PASSWORD}" for user in USERS)
    program = [
        *jars.greenmail(progress.Progress()),
        f"-Dgreenmail.imap.port={place.port}", "-Dgreenmail.imap.hostname=127.0.0.1",
        f"-Dgreenmail.pop3.port={place.pop3}", "-Dgreenmail.pop3.hostname=127.0.0.1",
        f"-Dgreenmail.users={users}", "com.icegreen.greenmail.standalone.GreenMailStandaloneRunner",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="greenmail-") as folder:
        yield from _started(place, program, Path(folder))


@contextlib.contextmanager
def _running(place: Server, script: str, prepare: Callable[[Path], None]) -> Iterator[Server]:
    """`script` in a namespace with the files of the server's packages. It needs root."""
    owner = pwd.getpwnam("mail")
    with tempfile.TemporaryDirectory(prefix=f"{place.name}-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        prepare(folder)
        lines = NAMESPACE + script
        text = lines.format(
            folder=folder, files=mailservers.unpacked(place.name, progress.Progress()), port=place.port,
            pop3=place.pop3, users=" ".join(USERS), password=dovecot.PASSWORD, uid=owner.pw_uid, gid=owner.pw_gid,
        )  # fmt: skip
        (folder / "start").write_text(text)
        options = ["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]
        yield from _started(place, ["unshare", *options, "sh", str(folder / "start")], folder)


def _started(place: Server, program: list[str], folder: Path) -> Iterator[Server]:
    with (folder / "log").open("w") as log:
        child = subprocess.Popen(program, cwd=folder, stdout=log, stderr=log, env={"PATH": os.environ["PATH"]})
    try:
        waiting.served(lambda: _opens(place), child, folder / "log", OSError, imaplib.IMAP4.error)
        with place.mailbox(USERS[0]) as client:
            offers = b"LIST-STATUS" in b" ".join(client.capability()[1])
        yield replace(place, lists=offers)
    finally:
        child.kill()
        child.wait(waiting.PATIENCE)


def _opens(place: Server) -> bool:
    with place.mailbox(USERS[0]):
        return True


STARTS: dict[str, Callable[[], contextlib.AbstractContextManager[Server]]] = {
    "dovecot": dovecot_,
    "cyrus": cyrus,
    "courier": courier,
    "greenmail": greenmail,
}
