"""Where a host is: on this machine or its private networks, or out on the public ones. Asks DNS, opens
nothing. Source: spec backends.md 15.6, prompt-reuse.md 7.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

Resolve = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class EgressTarget:
    """`where`: `local`, `remote` or `unknown` (no DNS answer, no readable URL). `addresses`: those that were
    looked at, to connect to without a second DNS answer; empty: the URL names an address itself, or nothing
    is known."""

    where: str
    addresses: tuple[str, ...] = ()


def resolve(host: str) -> list[str]:
    """All addresses of a host name. Raises OSError."""
    found: list[Any] = socket.getaddrinfo(host, None, 0, socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


def place_of(url: str, resolver: Resolve = resolve) -> EgressTarget:
    """A name with any public address among its answers is remote."""
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return EgressTarget("unknown")
    if not host:
        return EgressTarget("unknown")
    if host == "localhost" or host.endswith(".localhost"):
        return EgressTarget("local")
    try:
        return EgressTarget("remote" if is_public(host) else "local")
    except ValueError:
        pass
    try:
        addresses = tuple(resolver(host))
        public = any(is_public(address) for address in addresses)
    except (OSError, UnicodeError, ValueError):
        return EgressTarget("unknown")
    if not addresses:
        return EgressTarget("unknown")
    return EgressTarget("remote" if public else "local", addresses)


def is_public(address: str) -> bool:
    """Whether an IP address (IPv4-mapped IPv6 counts as the IPv4) is none of loopback, private, link-local,
    shared.

    Raises ValueError for what is no address.
    """
    ip = ipaddress.ip_address(address)
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_global
