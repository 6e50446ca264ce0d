"""Proxies of the environment, chosen as curl chooses them; calls to this machine never go to a proxy."""

from __future__ import annotations

import ipaddress
import re
import urllib.parse
import urllib.request
from collections.abc import Iterator

_PORTS = {"http": 80, "https": 443}
_ENTRY = re.compile(r"\[?(?P<host>[^\[\]]+?)\]?(?::(?P<port>\d+))?")


def proxy_of(base_url: str) -> str | None:
    """Return the URL of the proxy for a server: ``HTTP_PROXY``, ``HTTPS_PROXY`` or ``ALL_PROXY``, in either case.

    ``None`` for this machine (a loopback address would mean another one to the proxy), and for servers of ``NO_PROXY``.
    """
    parts = urllib.parse.urlsplit(base_url)
    host = (parts.hostname or "").rstrip(".").lower()
    proxies = urllib.request.getproxies_environment()
    if not host or is_this_machine(host):
        return None
    if not proxies:  # the settings of macOS and Windows
        url = None if urllib.request.proxy_bypass(host) else urllib.request.getproxies().get(parts.scheme)
    elif _is_excluded(host, parts.port or _PORTS.get(parts.scheme), proxies.get("no", "")):
        return None
    else:
        url = proxies.get(parts.scheme) or proxies.get("all")
    if not url or url.partition("://")[0].startswith("socks"):  # the client has no SOCKS
        return None
    return url if "://" in url else f"http://{url}"


def proxy_words(proxy: str | None) -> str:
    """Return the part of an error that names a proxy, without its login. Empty without a proxy."""
    if proxy is None:
        return ""
    address = urllib.parse.urlsplit(proxy)._replace(path="", query="", fragment="").geturl().rpartition("@")[2]
    return f" through the proxy {address.rpartition('://')[2]} of the environment (NO_PROXY excludes servers)"


def _is_excluded(host: str, port: int | None, excluded: str) -> bool:
    """Return True if ``NO_PROXY`` lists a server: ``*``, a domain with all below it, an address, a network (CIDR).

    An entry with a port holds for that port alone.
    """
    address = _address(host)
    for name, entry_port in _entries(excluded):
        if entry_port is not None and entry_port != port:
            continue
        if name == "*" or host == name or (address is None and host.endswith(f".{name}")):
            return True
        network = _network(name) if address is not None else None
        if network is not None and address in network:
            return True
    return False


def _entries(excluded: str) -> Iterator[tuple[str, int | None]]:
    for text in re.split(r"[,\s]+", excluded.lower()):
        name = text.strip(".")
        if _network(name):
            yield name, None
        elif match := _ENTRY.fullmatch(name):
            yield match["host"].strip("."), int(match["port"]) if match["port"] else None


def _network(name: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(name, strict=False)
    except ValueError:
        return None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def is_this_machine(host: str) -> bool:
    """Return True if a host name or address is the loopback interface."""
    address = _address(host)
    if address is None:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified
