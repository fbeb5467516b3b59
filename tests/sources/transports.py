"""Mail transports of others on loopback, Postfix, Exim and OpenSMTPD: what they take, a Dovecot keeps.

Postfix and Exim exclude each other as packages of Debian, so they are unpacked and run in a mount namespace, as the
servers of `tests.sources.servers`. Sources: postconf(5), master(5), the specification of Exim, smtpd.conf(5).
"""

from __future__ import annotations

import contextlib
import os
import smtplib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hack.cluster import mailservers, progress
from tests import needs, ports, waiting
from tests.sources import dovecot, servers

LARGEST = 10_000_000
"""Bytes of a mail."""
_USERS = """
echo 'postfix:x:9901:9901::/var:/bin/false' >> /etc/passwd
echo 'Debian-exim:x:9903:9903::/var:/bin/false' >> /etc/passwd
printf 'postfix:x:9901:\npostdrop:x:9902:\nDebian-exim:x:9903:\n' >> /etc/group
"""
_POSTFIX = """
mkdir -p /etc/postfix /var/lib/postfix /var/spool/postfix /var/log
chown 9901 /var/lib/postfix
cat > /etc/postfix/main.cf <<END
compatibility_level = 3.6
myhostname = mail.example.org
mydestination =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
message_size_limit = {largest}
mailbox_size_limit = 0
virtual_mailbox_domains = example.com, xn--bcher-kva.example
virtual_mailbox_maps = static:all
virtual_transport = lmtp:inet:127.0.0.1:{lmtp}
smtpd_sasl_type = dovecot
smtpd_sasl_path = inet:127.0.0.1:{sasl}
smtpd_sasl_auth_enable = yes
smtpd_relay_restrictions = permit_sasl_authenticated, reject
smtpd_recipient_restrictions = check_recipient_access inline:{{{{ absent@example.com = 550 5.1.1 no such user }}}}
maillog_file = {folder}/log.postfix
maillog_file_prefixes = {folder}
END
cat > /etc/postfix/master.cf <<END
127.0.0.1:{port} inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
error unix - - n - - error
retry unix - - n - - error
lmtp unix - - n - - lmtp
proxymap unix - - n - - proxymap
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
END
exec postfix start-fg
"""
_EXIM = r"""
mkdir -p /etc/exim4 /var/spool/exim4 /var/log/exim4
chown 9903:9903 /var/spool/exim4 /var/log/exim4
cat > /etc/exim4/exim4.conf <<END
primary_hostname = mail.example.org
message_size_limit = {largest}
daemon_smtp_ports = {port}
local_interfaces = 127.0.0.1
acl_smtp_rcpt = rcpt
acl_smtp_data = data
host_lookup =
rfc1413_query_timeout = 0s
auth_advertise_hosts = *
tls_advertise_hosts =
begin acl
rcpt:
  deny recipients = absent@example.com
       message = no such user
  accept authenticated = *
  deny message = log in
data:
  accept
begin routers
keep:
  driver = accept
  transport = keep
begin transports
keep:
  driver = smtp
  protocol = lmtp
  hosts = 127.0.0.1
  port = {lmtp}
  allow_localhost
begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_condition = \${{if eq{{\$auth3}}{{{password}}}}}
END
chmod 644 /etc/exim4/exim4.conf
exec exim4 -bdf -q1m
"""
_OPENSMTPD = """
ln -s /run /var/run
mkdir -p /var/empty /var/lib/opensmtpd/empty
mkdir -p /var/spool
mkdir -m 711 /var/spool/smtpd
cat > {folder}/smtpd.conf <<END
smtp max-message-size "{largest}"
table known {{ "example.com", "xn--bcher-kva.example" }}
table absent {{ "absent@example.com" }}
listen on 127.0.0.1 port {port}
action "keep" relay host lmtp://127.0.0.1:{lmtp}
match from any for rcpt-to <absent> reject
match from any for domain <known> action "keep"
END
exec smtpd -d -f {folder}/smtpd.conf
"""
SCRIPTS = {"postfix": _POSTFIX, "exim": _EXIM, "opensmtpd": _OPENSMTPD}


@contextlib.contextmanager
def running(name: str) -> Iterator[tuple[int, dovecot.Dovecot]]:
    """The port of the transport, and who keeps its mails. It needs root."""
    needs.packages("opensmtpd")
    sasl, port = ports.free(), ports.free()
    with dovecot.running(sasl=sasl) as kept, tempfile.TemporaryDirectory(prefix=f"{name}-") as place:
        folder = Path(place)
        folder.chmod(0o755)
        files = folder / "none"
        (files / "usr").mkdir(parents=True)
        (files / "etc").mkdir()
        if name in mailservers.TRANSPORTS:
            files = mailservers.unpacked(name, progress.Progress())
        text = (servers.NAMESPACE + _USERS + SCRIPTS[name]).format(
            folder=folder, files=files, port=port, lmtp=kept.lmtp, sasl=sasl, largest=LARGEST, password=dovecot.PASSWORD
        )
        (folder / "start").write_text(text)
        options = ["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]
        with (folder / "log").open("w") as log:
            command = ["unshare", *options, "sh", str(folder / "start")]
            child = subprocess.Popen(
                command, cwd=folder, stdout=log, stderr=log, env={"PATH": f"{os.environ['PATH']}:/usr/sbin"}
            )
        try:
            waiting.served(lambda: _greets(port), child, folder / "log", OSError, smtplib.SMTPException)
            yield port, kept
        finally:
            child.kill()
            child.wait(waiting.PATIENCE)


def _greets(port: int) -> bool:
    with smtplib.SMTP("127.0.0.1", port, timeout=waiting.PATIENCE):
        return True
