"""Mailboxes by IMAP and POP3, and the mails that runs send."""
