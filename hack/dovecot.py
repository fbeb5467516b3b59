"""The configuration of a Dovecot of ours: mailboxes in a folder, one password, any number of users.

Source: Dovecot 2.3 documentation, "Quick configuration" and "Static password database".
"""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Mapping
from pathlib import Path

from hack.cluster import certificates, errors

_CONFIG = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
protocols = {protocols}
ssl = {ssl}
{certificate}
disable_plaintext_auth = no
default_internal_user = dovecot
default_login_user = dovenull
default_internal_group = dovecot
first_valid_uid = 1
auth_failure_delay = 0
service anvil {{
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
{more}
mail_location = maildir:{folder}/mail/%u
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={folder}/mail/%u
}}
namespace inbox {{
  inbox = yes
  separator = /
  mailbox Trash {{
    special_use = \\Trash
    auto = create
  }}
  mailbox Sent {{
    special_use = \\Sent
    auto = create
  }}
}}
{services}
service stats {{
  unix_listener stats-writer {{
    mode = 0666
  }}
}}
"""
_SERVICES = {
    "imap-login": ("imap", "imaps"),
    "pop3-login": ("pop3", "pop3s"),
    "lmtp": ("lmtp",),
    "submission-login": ("submission", "submissions"),
}


def program() -> str:
    """Its path. Raises errors.Missing with the remedy."""
    found = shutil.which("dovecot", path=f"/usr/sbin:/usr/local/sbin:{os.environ.get('PATH', '')}")
    if found is None:
        raise errors.Missing("dovecot is missing: apt-get install dovecot-imapd")
    return found


def prepare(
    folder: Path,
    address: str,
    ports: Mapping[str, int],
    *,
    password: str,
    tls: certificates.Pair | None,
    more: str = "",
) -> Path:
    """Lay out `folder` and return the path of its configuration. `ports` of imap, imaps, pop3, pop3s, lmtp,
    submission, submissions; one that is left out is not listened on. `more` stands before the password."""
    folder.chmod(0o711)  # mails belong to a user without rights
    for part in ("run", "state", "mail"):
        (folder / part).mkdir()
    owner = pwd.getpwnam("mail")
    os.chown(folder / "mail", owner.pw_uid, owner.pw_gid)
    config = folder / "dovecot.conf"
    config.write_text(
        _CONFIG.format(
            folder=folder, password=password, more=more, uid=owner.pw_uid, gid=owner.pw_gid, ssl="yes" if tls else "no",
            certificate=f"ssl_cert = <{tls.certificate}\nssl_key = <{tls.key}" if tls else "",
            protocols=" ".join(sorted({name.removesuffix("s") for name in ports})),
            services="\n".join(_service(name, ours, address, ports) for name, ours in _SERVICES.items()),
        )
    )  # fmt: skip
    return config


def _service(name: str, listeners: tuple[str, ...], address: str, ports: Mapping[str, int]) -> str:
    if not ports.keys() & set(listeners):
        return ""

    def tls(name: str) -> str:
        return "    ssl = yes\n" if name.endswith("s") else ""

    # Port 0 is none.
    inside = "".join(
        f"  inet_listener {one} {{\n    address = {address}\n    port = {ports.get(one, 0)}\n{tls(one)}  }}\n"
        for one in listeners
    )
    return f"service {name} {{\n{inside}}}"
