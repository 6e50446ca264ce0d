"""Checks of server addresses: an address must not contain a key, and redirects are not followed."""

from __future__ import annotations

import re
import urllib.parse

from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.text import safe
from ragrounds.recorder.redaction import Redactor

_KEY_NAME = re.compile(
    r"(?:^|[-_.])(?:key|token|secret|password|passwd|pwd|sig|signature|auth|authorization|credentials?|code)s?$|apikey",
    re.IGNORECASE,
)


def check_address(url: str, instead: str) -> str:
    """Return the address if it contains no login and no key, because it becomes part of identities, tables and errors.

    Args:
        url: The address.
        instead: Advice where the key belongs.

    Raises:
        UserError: part of the address is a key or looks like one.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.username is not None:
        # The login would become part of the run's identity, of tables and of the store.
        raise UserError(
            f"The server's address {url.rpartition('@')[2].partition('?')[0]!r} was given with a login. Leave the "
            f"login out and {instead}."
        )
    query_fields = urllib.parse.parse_qsl(f"{parts.query}&{parts.fragment}", keep_blank_values=True)
    bad = [name for name, _ in query_fields if _KEY_NAME.search(name)]
    redact = Redactor()
    if bad or redact(url) != url or redact(urllib.parse.unquote(url)) != urllib.parse.unquote(url):
        where = f"as {redact(safe(bad[0], 40))!r}" if bad else "in it"
        plain = redact(f"{parts.scheme}://{parts.netloc}")
        raise UserError(
            f"The server's address {plain!r} was given with a key {where}. Leave the key out and {instead}."
        )
    return url


def check_http_address(url: str, instead: str) -> str:
    """Return the address of an HTTP server if it contains no login and no key; for `instead` see :func:`check_address`.

    Raises:
        UserError: its scheme is not HTTP or HTTPS, or part of the address is a key or looks like one.
    """
    if not re.match(r"https?://[^/?#]", url, re.IGNORECASE):
        # Without its scheme, an address is not divided into parts: its login and its query may be anywhere.
        plain = Redactor()(re.split(r"[?#]", url.rpartition("@")[2])[0])
        raise UserError(f"{safe(plain, 200)!r} is no server's address: expected http://HOST:PORT/… or https://HOST/….")
    return check_address(url, instead)


def redirected(url: str, status: int, location: str, redact: Redactor) -> StopRun:
    """Return the error for a server that redirects: one line, without keys and control characters."""
    try:
        # Redact first: parsing puts the parts of an address into lower case, in which a key is not recognized.
        parts = urllib.parse.urlsplit(urllib.parse.urljoin(url, redact(location)))
        port = f":{parts.port}" if parts.port else ""
        target = safe(f"{parts.scheme}://{parts.hostname or ''}{port}", 200).replace("\n", " ")
    except ValueError:
        target = "an address that cannot be read"
    if not location:
        target = "an address that it does not name"
    return StopRun(
        f"{redact(url)} redirects to {target} ({status}). Redirects are not followed: they would send what is asked, "
        "and the key, to another address. If that is the right server, give its address."
    )
