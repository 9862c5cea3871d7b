"""Which URLs a node may fetch: strict parsing, a table of addresses that are not public, one look-up whose
answers are judged and then used.

The table is ours and not the interpreter's, which changes with its version; what it does not know to be
public is refused. Never connects to anything. Source: spec tools.md 2 and 11.2; RFC 6890 and the IANA
special-purpose registries.
"""

from __future__ import annotations

import contextvars
import ipaddress
import re
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import idna

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[[str, int], Sequence[str]]
"""(host, port) -> addresses as texts. Raises OSError when there is none."""

RESOLVE_LIMIT_S = 5.0

_REFUSED = tuple(
    (ipaddress.ip_network(network), reason)
    for network, reason in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmark"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "documentation"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
"""The only part of IPv6 from which public addresses are given; translation prefixes lie outside."""
_ISATAP = (0x00005EFE, 0x02005EFE)

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?", re.DOTALL)
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::([0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_CONTROL = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\ufeff]")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORTS = {"http": 80, "https": 443}
_SAFE = "%/:=&;,!$'()*+@~?[]|"


class AddressRefused(ValueError):
    """A URL that may not be fetched. The text holds the reason, never whether anything answers there."""


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """A parsed URL. `url`: made from the parts again; this is what is sent.

    `host`: lower-case ASCII, or an address in its usual form (IPv6 without brackets).
    """

    url: str
    scheme: str
    host: str
    port: int

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port


def parse_target(url: str) -> RequestTarget:
    """Raises AddressRefused for whatever two programs could read differently."""
    text = url.strip(" \t\r\n")
    if not (match := _URL.fullmatch(text)):
        raise AddressRefused("address not allowed (not a URL with a scheme and a host)")
    scheme, authority, path, query = match[1].lower(), match[2], match[3], match[4] or ""
    if scheme not in _PORTS:
        raise AddressRefused("address not allowed (the scheme must be http or https)")
    if any(mark in authority for mark in "@\\%") or _CONTROL.search(authority):
        raise AddressRefused("address not allowed (user name, escape or odd character before the path)")
    if not (parts := _AUTHORITY.fullmatch(authority)):
        raise AddressRefused("address not allowed (no host, or no port from 1 to 65535)")
    host, port = _host(parts[1]), int(parts[2] or _PORTS[scheme])
    if not 1 <= port <= 65535:
        raise AddressRefused("address not allowed (no port from 1 to 65535)")
    if re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", path + query):
        raise AddressRefused("address not allowed (control character, or half of a character)")
    shown = f"[{host}]" if ":" in host else host
    place = shown if port == _PORTS[scheme] else f"{shown}:{port}"
    rest = quote(path or "/", safe=_SAFE) + quote(query, safe=_SAFE)
    return RequestTarget(f"{scheme}://{place}{rest}", scheme, host, port)


def _host(text: str) -> str:
    """Raises AddressRefused."""
    if text.startswith("["):
        try:
            return str(ipaddress.IPv6Address(text[1:-1]))
        except ValueError:
            raise AddressRefused("address not allowed (no IPv6 address in the brackets)") from None
    try:
        name = idna.uts46_remap(text, std3_rules=False).removesuffix(".")
        name = name if name.isascii() else idna.encode(name).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        raise AddressRefused("address not allowed (not a host name)") from None
    labels = name.lower().split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return str(_historic_ipv4(labels))
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise AddressRefused("address not allowed (not a host name)")
    return ".".join(labels)


def _historic_ipv4(parts: Sequence[str]) -> ipaddress.IPv4Address:
    """One to four numbers, decimal, octal or hexadecimal; the last fills the rest. Source: `inet_aton`."""
    try:
        *first, last = [_number(part) for part in parts]
        if len(first) > 3 or any(number > 255 for number in first) or last >= 256 ** (4 - len(first)):
            raise ValueError
    except ValueError:
        raise AddressRefused("address not allowed (not an IPv4 address)") from None
    return ipaddress.IPv4Address(sum(number << (24 - 8 * place) for place, number in enumerate(first)) + last)


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text) or len(text) > 24:
        raise ValueError(text)
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8 if len(text) > 1 and text.startswith("0") else 10)


def judge(address: str) -> str | None:
    """Why an address is refused (`loopback`, `private` ...), None for a public one.

    IPv4-mapped IPv6 is judged as the IPv4 address; a zone (`%eth0`) is cut off.
    """
    try:
        parsed = plain_address(address)
    except ValueError:
        return "not an address"
    return _judge_address(parsed)


def plain_address(address: str) -> Address:
    """Raises ValueError."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return mapped or parsed


def _judge_address(address: Address) -> str | None:
    for network, reason in _REFUSED:
        if address.version == network.version and address in network:
            return reason
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address not in _GLOBAL_V6:
        return "reserved"
    if int(address) >> 32 & 0xFFFFFFFF in _ISATAP:
        return _judge_address(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return None


def system_resolver(host: str, port: int) -> list[str]:
    """All addresses of a name, in the system's order. Raises OSError, TimeoutError after RESOLVE_LIMIT_S."""
    found: list[str] = []
    errors: list[Exception] = []

    def look_up() -> None:
        try:
            found.extend(str(info[4][0]) for info in socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            errors.append(error)

    context = contextvars.copy_context()
    worker = threading.Thread(target=context.run, args=(look_up,), name="resolver", daemon=True)
    worker.start()
    worker.join(RESOLVE_LIMIT_S)
    if worker.is_alive():
        raise TimeoutError("the name was not resolved in time")
    if errors:
        raise OSError(f"the name cannot be resolved ({type(errors[0]).__name__})") from errors[0]
    return found


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """What a node may reach. `allowed_hosts`: None = no list; entries `host`, `host:port`, `.example.org`.

    `named_may_be_private`: a host that stands in the list by its whole name is not asked for its addresses.
    `resolver`: for tests.
    """

    block_private: bool = False
    allowed_hosts: tuple[str, ...] | None = None
    resolver: Resolver = system_resolver
    named_may_be_private: bool = False

    @property
    def guards(self) -> bool:
        """Whether anything is refused at all."""
        return self.block_private or self.allowed_hosts is not None

    def check(self, url: str) -> Checked:
        """The parsed URL and the addresses to connect to (none when only names are checked).

        Raises AddressRefused.
        """
        target = parse_target(url)
        if self.allowed_hosts is not None and not any(_allows(e, target) for e in self.allowed_hosts):
            raise AddressRefused("address not allowed (the host is not in 'allowedHosts')")
        screens = self.block_private and not (self.named_may_be_private and self._names(target))
        return Checked(target, self._public_addresses(target) if screens else ())

    def _names(self, target: RequestTarget) -> bool:
        return any(not e.startswith(".") and _allows(e, target) for e in self.allowed_hosts or ())

    def _public_addresses(self, target: RequestTarget) -> tuple[str, ...]:
        addresses = _unique(self._addresses(target))
        for address in addresses:
            if reason := _judge_address(address):
                raise AddressRefused(f"address not allowed ({reason})")
        return tuple(str(address) for address in addresses)

    def _addresses(self, target: RequestTarget) -> Iterable[Address]:
        try:
            return [plain_address(target.host)]
        except ValueError:
            pass  # a name, to be resolved
        try:
            found = [plain_address(answer) for answer in self.resolver(target.host, target.port)]
        except (OSError, ValueError):
            found = []
        if not found:
            raise AddressRefused("address not allowed (the host does not resolve)")
        return found


@dataclass(frozen=True, slots=True)
class Checked:
    """A URL that passed. `pins`: the judged addresses, the only ones to connect to; `()` = not looked up."""

    target: RequestTarget
    pins: tuple[str, ...]


def _unique(addresses: Iterable[Address]) -> list[Address]:
    return list(dict.fromkeys(addresses))


def _allows(entry: str, target: RequestTarget) -> bool:
    """An IPv6 address in the list may stand with or without brackets."""
    host, colon, port = entry.rpartition(":")
    if colon and port.isascii() and port.isdigit() and (":" not in host or host.endswith("]")):
        if int(port) != target.port:
            return False
    else:
        host = entry
    host = host.removeprefix("[").removesuffix("]").removesuffix(".")
    return target.host.endswith(host) if host.startswith(".") else target.host == host
