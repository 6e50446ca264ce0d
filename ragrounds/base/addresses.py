"""Addresses of servers: no key stands in one, and none is taken from a server's redirect."""

from __future__ import annotations

import re
import urllib.parse

from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.redaction import Redactor
from ragrounds.base.text import safe

_KEY_NAME = re.compile(
    r"(?:^|[-_.])(?:key|token|secret|password|passwd|pwd|sig|signature|auth|authorization|credentials?|code)s?$|apikey",
    re.IGNORECASE,
)


def check_address(url: str, instead: str) -> str:
    """The address, if no login and no key stands in it: it becomes a part of identities, tables and errors.

    Args:
        url: The address.
        instead: Where its key belongs.

    Raises:
        UserError: something in it is, or looks like, a key.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.username is not None:
        # It would stand in the run's identity, in tables and in the store.
        raise UserError(
            f"The server's address {url.rpartition('@')[2].partition('?')[0]!r} was given with a login. Leave the "
            f"login out and {instead}."
        )
    named = urllib.parse.parse_qsl(f"{parts.query}&{parts.fragment}", keep_blank_values=True)
    bad = [name for name, _ in named if _KEY_NAME.search(name)]
    redact = Redactor()
    if bad or redact(url) != url or redact(urllib.parse.unquote(url)) != urllib.parse.unquote(url):
        where = f"as {redact(safe(bad[0], 40))!r}" if bad else "in it"
        plain = redact(f"{parts.scheme}://{parts.netloc}")
        raise UserError(
            f"The server's address {plain!r} was given with a key {where}. Leave the key out and {instead}."
        )
    return url


def redirected(place: str, status: int, location: str, redact: Redactor) -> StopRun:
    """The error of a server that answers with a redirect: one line, without keys and control characters."""
    try:
        # Without keys first: the parts of an address are written in small letters.
        parts = urllib.parse.urlsplit(urllib.parse.urljoin(place, redact(location)))
        port = f":{parts.port}" if parts.port else ""
        target = safe(f"{parts.scheme}://{parts.hostname or ''}{port}", 200).replace("\n", " ")
    except ValueError:
        target = "an address that cannot be read"
    if not location:
        target = "an address that it does not name"
    return StopRun(
        f"{redact(place)} redirects to {target} ({status}). Redirects are not followed: they would send what is asked, "
        "and the key, to another address. If that is the right server, give its address."
    )
