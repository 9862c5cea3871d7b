"""What a curl command may hold: guards against inserted options, files and schemes, and the rewriting of a
command so that curl reaches the judged addresses only. Pure but for the look-up. Source: spec tools.md 4.3,
4.4 and 11.4.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from Middleware.utilities.network_security_utils import (
    AddressPolicy,
    AddressRefused,
    Checked,
    Target,
    parse_target,
)
from Middleware.workflows.tools.curl_arguments import (
    Part,
    is_harmless,
    option_and_value,
    option_before,
    url_may_follow,
)

GUARDED = (
    Part("proto", "=http,https"),
    Part("proto-redir", "=http,https"),
    Part("proto-default", "http"),
    Part("globoff"),
    Part("no-netrc"),
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_IPV6 = re.compile(r"^\[[0-9A-Fa-f:.%]*\]")
_HOST_AND_PORT = re.compile(r"[A-Za-z0-9.-]+:[0-9]{1,5}(?:/|$)")
_HEADERS_FILE = re.compile(r";\s*headers\s*=\s*[@<]", re.IGNORECASE)
_NAME_A_FILE = frozenset(["upload-file", "config"])
"""Options whose value is the name of a file that is sent or obeyed, without a mark before it."""
_ENCODED = frozenset(["data-urlencode", "url-query", "variable"])
"""Options with `name=value` or `name@file`."""
_BODY = frozenset(
    [
        "data",
        "data-ascii",
        "data-binary",
        "data-raw",
        "data-urlencode",
        "json",
        "form",
        "form-string",
        "upload-file",
        "get",
    ]
)
_KEYS = frozenset(["user", "oauth2-bearer", "cookie", "cert", "key", "pass"])
_KEY_HEADER = re.compile(r"[^:;]*(?:key|token|secret|passw|auth|session|cookie|credential)", re.IGNORECASE)


def inserted_option(template: str, value: str, before: str = "") -> bool:
    """Claims that what was filled in became an option, or the name of a file to be read.

    `before`: the argument before.
    """
    if any(value.startswith(mark) and not template.startswith(mark) for mark in "-@"):
        return True
    authored = template.partition("{")[0]
    inserted = value.removeprefix(authored)
    if not inserted or template == value:
        return False
    option, said = (
        option_and_value(authored) if authored.startswith("-") else (option_before(before), authored)
    )
    if authored.endswith("@") or (option in _NAME_A_FILE and not said):
        return True
    ends_before_value = authored.endswith("=") or (authored.startswith("-") and bool(option) and not said)
    if ends_before_value and inserted.startswith(("@", "<")):
        return True
    return _file_in_a_field(option, said, inserted)


def _file_in_a_field(option: str, said: str, inserted: str) -> bool:
    """The value of an option that may name a file somewhere in it, of which `said` is the author's."""
    if option == "form":
        content = inserted if "=" in said else inserted.partition("=")[2]
        return ("=" not in said and content.startswith(("@", "<"))) or bool(_HEADERS_FILE.search(content))
    if option in _ENCODED and not any(mark in said for mark in "=@"):
        return "@" in inserted.partition("=")[0]
    if option == "cookie":  # without a name and a value it is a file of cookies
        return "=" not in said + inserted
    return option == "write-out" and "%output{" in inserted


def inserted_scheme(template: str, value: str, before: str) -> bool:
    """Claims that what was filled in is a URL of another scheme than http. `before`: the argument before."""
    template, text = template.strip().removeprefix("--url="), value.strip().removeprefix("--url=")
    if _opens_with_a_pattern(text) and url_may_follow(before):
        return template.replace("{{", "{").replace("}}", "}") != text
    found = _SCHEME.match(text)
    if not found or found[1].lower() in ("http", "https") or before in ("-H", "--header"):
        return False
    return not (_HOST_AND_PORT.match(text) or template.lower().startswith(found[0].lower()))


def _opens_with_a_pattern(text: str) -> bool:
    """Claims that curl would make the scheme or the host out of `{a,b}` or `[a-b]`."""
    return any(mark in _IPV6.sub("", text).partition("/")[0] for mark in "{[")


def refuse_strange_parts(parts: Sequence[Part]) -> None:
    """Raises AddressRefused for an option that could lead to an address that nobody judged."""
    for part in parts:
        if not is_harmless(part):
            raise AddressRefused(f"argument {part.index + 1}: --{part.name} is not allowed beside a guard")


def check_url(part: Part, policy: AddressPolicy) -> Checked:
    """Raises AddressRefused, naming the argument."""
    try:
        return policy.check(_with_scheme(part))
    except AddressRefused as error:
        raise AddressRefused(f"argument {part.index + 1}: {error}") from None


def target_of(part: Part) -> Target:
    """Where a URL leads, without a look-up. Raises AddressRefused."""
    return parse_target(_with_scheme(part))


def _with_scheme(part: Part) -> str:
    """A URL without a scheme is read as http."""
    url = part.value or ""
    return url if "://" in url else f"http://{url}"


def pinned(parts: Sequence[Part], policy: AddressPolicy) -> list[Part]:
    """The parts with each URL in the form that was judged, and its addresses told to curl."""
    made: list[Part] = []
    for part in parts:
        if part.name != "url":
            made.append(part)
            continue
        checked = check_url(part, policy)
        target = checked.target
        if checked.pins and target.host not in checked.pins:
            addresses = ",".join(f"[{pin}]" if ":" in pin else pin for pin in checked.pins)
            made.append(Part("resolve", f"{target.host}:{target.port}:{addresses}", part.index))
        made.append(replace(part, value=target.url))
    return made


def next_hop(parts: Sequence[Part], status: int, location: str, *, same_origin: bool) -> list[Part]:
    """The command for the target of a redirect. Source: as WebFetch, tools.md 3.2 and 11.2."""
    as_get = status in (301, 302, 303) and not any(part.name == "head" for part in parts)
    return [
        replace(part, value=location) if part.name == "url" else part
        for part in parts
        if not (as_get and _belongs_to_body(part)) and (same_origin or not _is_private(part))
    ]


def _belongs_to_body(part: Part) -> bool:
    if part.name == "header":
        return (part.value or "").lower().startswith(("content-type:", "content-length:"))
    return part.name in _BODY or part.name == "request"


def _is_private(part: Part) -> bool:
    return part.name in _KEYS or (part.name == "header" and bool(_KEY_HEADER.match(part.value or "")))
