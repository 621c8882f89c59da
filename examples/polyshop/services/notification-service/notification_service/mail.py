"""Mails over SMTP."""

import smtplib
from email.errors import HeaderParseError
from email.headerregistry import Address
from email.message import EmailMessage

from .errors import Permanent

TIMEOUT_SECS = 10


def address_of(user_id, domain):
    """Where a user is written to whose address is not known."""
    try:
        return Address(username=user_id, domain=domain).addr_spec
    except (ValueError, HeaderParseError, IndexError) as error:
        raise Permanent("Validation failed: userId cannot be part of an address") from error


def one_address(email):
    """The address that a text must be, and no list of them."""
    try:
        return Address(addr_spec=email or "").addr_spec
    except (ValueError, TypeError, HeaderParseError, IndexError) as error:
        raise Permanent("Validation failed: email is no address") from error


def compose(sender, recipient, message_id, subject, text):
    """The Message-ID is the notification's own: a mail that comes twice can be known by it."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = sender, recipient, subject
    mail["Message-ID"] = f"<{message_id}>"
    mail.set_content(text)
    return mail


def post(smtp, mail):
    """Returns when the mail server has taken the mail. What it will never take is permanent."""
    host, port = smtp
    try:
        with smtplib.SMTP(host, port, timeout=TIMEOUT_SECS) as server:
            server.send_message(mail)
    except smtplib.SMTPRecipientsRefused as error:
        code, why = next(iter(error.recipients.values()))
        raise_refusal(code, why, error)
    except smtplib.SMTPResponseException as error:
        raise_refusal(error.smtp_code, error.smtp_error, error)
    except (smtplib.SMTPNotSupportedError, UnicodeEncodeError) as error:
        raise Permanent("the mail server takes no such address") from error


def raise_refusal(code, why, error):
    reason = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
    problem = f"the mail server refuses the mail: {code} {reason}"
    raise (Permanent(problem) if code >= 500 else ConnectionError(problem)) from error
