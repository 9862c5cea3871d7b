"""Which URLs may be fetched: the table of addresses, spellings that try to get past it, and lists of hosts."""

from __future__ import annotations

import socket
import threading

import pytest

from Middleware.utilities import network_security_utils as security
from Middleware.utilities.network_security_utils import AddressPolicy, AddressRefused, judge, parse_target
from tests.patience import PATIENCE_S

PUBLIC = "93.184.216.34"

REFUSED_ADDRESSES = {
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "::1": "loopback",
    "169.254.169.254": "link-local",
    "fe80::1": "link-local",
    "febf::1": "link-local",
    "10.0.0.1": "private",
    "10.255.255.255": "private",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.168.1.1": "private",
    "fc00::1": "private",
    "fdff::1": "private",
    "0.0.0.0": "unspecified",
    "0.1.2.3": "unspecified",
    "::": "unspecified",
    "224.0.0.1": "multicast",
    "ff02::1": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "100.64.0.1": "shared",
    "100.127.255.255": "shared",
    "198.18.0.1": "benchmark",
    "198.19.255.255": "benchmark",
    "192.0.2.1": "documentation",
    "198.51.100.1": "documentation",
    "203.0.113.1": "documentation",
    "2001:db8::1": "documentation",
    "::ffff:127.0.0.1": "loopback",
    "::ffff:10.0.0.1": "private",
    "64:ff9b::10.0.0.1": "reserved",
    "64:ff9b::5db8:d822": "reserved",
    "::10.0.0.1": "reserved",
    "::93.184.216.34": "reserved",
    "2002:7f00:1::1": "6to4",
    "2002:5db8:d822::1": "6to4",
    "fec0::1": "site-local",
    "feff::1": "site-local",
    "192.88.99.1": "6to4 relay",
    "2001::1": "reserved",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2": "reserved",
    "2606:4700::5efe:10.0.0.1": "private",
    "2606:4700::200:5efe:127.0.0.1": "loopback",
    "192.0.0.8": "reserved",
    "3fff::1": "documentation",
    "100::1": "reserved",
    "5f00::1": "reserved",
    "4000::1": "reserved",
    "fe80::1%eth0": "link-local",
    "nonsense": "not an address",
}
PUBLIC_ADDRESSES = [
    PUBLIC,
    "1.1.1.1",
    "172.15.255.255",
    "172.32.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "::ffff:93.184.216.34",
    "2606:4700::1",
    "2001:200::1",
    "2606:4700::5efe:93.184.216.34",
]

SPELLINGS = [  # ways to write a place that is not public, or a URL that two programs read differently
    "http://127.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0X7F.1/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://0177.0x0.0.1/",
    "http://127.0.0.1./",
    "http://127.0.0.01/",
    "http://0/",
    "http://0x/",
    "http://0.0.0.0:8080/",
    "http://4294967296/",
    "http://256.256.256.256/",
    "http://1.2.3.4.5/",
    "http://08.0.0.1/",
    "http://127.0.0.1.5/",
    "http://localhost/",
    "http://LOCALHOST./",
    "http://inner.example/",
    "http://\uff11\uff12\uff17.\uff10.\uff10.\uff11/",
    "http://127\u30020\u30020\u30021/",
    "http://127\uff0e0\uff0e0\uff0e1/",
    "http://\u2460\u2461\u2466.0.0.1/",
    "http://loc\u00adalhost/",
    "http://\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3/",
    "http://[::1]/",
    "http://[::]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://[::1]:80:80/",
    "http://[::1/",
    "http://::1/",
    "http://[v1.fe80]/",
    "http://169.254.169.254/latest/meta-data/",
    "http://0xa9fea9fe/",
    "http://2852039166/",
    "http://public.example@127.0.0.1/",
    "http://127.0.0.1@public.example/",
    "http://user:pw@public.example/",
    "http://public.example\\@127.0.0.1/",
    "http://127.0.0.1\\.public.example/",
    "http://127.0.0.1%2f.public.example/",
    "http://%31%32%37.0.0.1/",
    "http://public.example%00.inner.example/",
    "http://public.example\t.inner.example/",
    "http://public.example\n127.0.0.1/",
    "http://public.example 127.0.0.1/",
    "http://public.example:80@127.0.0.1/",
    "http://public.example:0/",
    "http://public.example:65536/",
    "http://public.example:8\uff10/",
    "http://public.example:/",
    "http://public.example:80x/",
    "http:///127.0.0.1/",
    "http:/127.0.0.1/",
    "http:127.0.0.1/",
    "//127.0.0.1/",
    "http://",
    "http://.../",
    "http://public..example/",
    "http://-public.example/",
    "http://\ud800.example/",
    "http://" + "a" * 64 + ".example/",
    "http://" + "a." * 130 + "example/",
    "http://public.example/\r\nHost: 127.0.0.1",
    "file:///etc/passwd",
    "ftp://public.example/",
    "gopher://public.example/",
    "dict://public.example/",
    "data:text/plain,hi",
    "jar:http://public.example!/",
    "ldap://public.example/",
    "public.example",
    "",
]
MORE_SPELLINGS = [  # zones, translated IPv6, dots and letters that look like others, user names, ports, schemes
    "http://[fe80::1%251]/",
    "http://[::ffff:127.0.0.1%25lo]/",
    "http://[::1%25]/",
    "http://[fe80::1%lo0]:80/",
    "http://[64:ff9b:1::7f00:1]/",
    "http://[64:ff9b:1:fffe::10.0.0.1]/",
    "http://[2001:0:7f00:1::]/",
    "http://[2001:20::1]/",
    "http://[2001:10::1]/",
    "http://[2002:a9fe:a9fe::]/",
    "http://[2002:c0a8:0101::1]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://[::ffff:0:7f00:1]/",
    "http://[0:0:0:0:0:ffff:a9fe:a9fe]/",
    "http://[::0.0.0.1]/",
    "http://[0000:0000:0000:0000:0000:0000:0000:0001]/",
    "http://[::ffff:2130706433]/",
    "http://[::127.1]/",
    "http://[fec0::1]/",
    "http://[2606:4700::0:5efe:a9fe:a9fe]/",
    "http://[2606:4700::200:5efe:c0a8:1]/",
    "http://[100:0:0:1::1]/",
    "http://127.0.0.1\u3002/",
    "http://127\u30021/",
    "http://127\uff610\uff610\uff611/",
    "http://0x7f\u30020\u30020\u30021/",
    "http://\u2460\u2461\u2466.\u24ea.\u24ea.\u2460/",
    "http://localhost\u3002/",
    "http://localhost%2e/",
    "http://\u24dbocalhost/",
    "http://lOcAlHoSt/",
    "http://\uff4c\uff4f\uff43\uff41\uff4c\uff48\uff4f\uff53\uff54/",
    "http://local\u200dhost/",
    "http://local\u200bhost/",
    "http://local\ufeffhost/",
    "http://local\u2060host/",
    "http://0177.1/",
    "http://0x7F.0x1/",
    "http://00000177.0.0.01/",
    "http://0x00000000007f.0.0.1/",
    "http://0b1111111.0.0.1/",
    "http://0o177.0.0.1/",
    "http://127.0.0.0x1/",
    "http://+127.0.0.1/",
    "http://127.0.0.1_/",
    "http://1_27.0.0.1/",
    "http://127.0.0.1\x00/",
    "http://\u246027.1/",
    "http://\u0660/",
    "http://\u0967\u0968\u096d.0.0.1/",
    "http://127.0.0.1..../",
    "http://0xffffffff/",
    "http://3232235777/",
    "http://017700000001:80/",
    "http://192.168.257/",
    "http://10.1/",
    "http://169.254.43518/",
    "http://0251.0376.0251.0376/",
    "http://0xa9.254.0251.254/",
    "http://a@127.0.0.1/",
    "http://127.0.0.1:80@public.example/",
    "http://public.example;@127.0.0.1/",
    "http://public.example&@127.0.0.1#@public.example/",
    "http://public.example:pw@127.0.0.1:80/",
    "http://@127.0.0.1/",
    "http://:@127.0.0.1/",
    "http://public.example%40127.0.0.1/",
    "http://public.example\uff20127.0.0.1/",
    "http://public.example:80:80/",
    "http://public.example:+80/",
    "http://public.example:-1/",
    "http://public.example:8_0/",
    "http://public.example: 80/",
    "http://public.example:80 /",
    "http://public.example:\u0663/",
    "http://127.0.0.1:00080/",
    "http://public.example:65537/",
    "http://public.example:000065536/",
    "http://public.example:99999999999/",
    "http:\\\\127.0.0.1\\",
    "http:/\\127.0.0.1/",
    "http:\\/127.0.0.1",
    "http://\\127.0.0.1/",
    "http://public.example\\.127.0.0.1/",
    "http://public.example\\@127.0.0.1",
    "\\\\127.0.0.1\\x",
    "/\\127.0.0.1",
    "http:///public.example/",
    "http:////127.0.0.1/",
    "///127.0.0.1/",
    "http://public.example%0d%0aHost:127.0.0.1/",
    "http://public.example\r\n/",
    "http://public.example/\tx",
    "http://public.example/\x0bx",
    "http://public.example/?a\r\nb",
    "ht\ntp://127.0.0.1/",
    "http\t://127.0.0.1/",
    "http://127.0\n.0.1/",
    "http://127.0\t.0.1/",
    "\x00http://127.0.0.1/",
    "\xa0http://127.0.0.1/",
    "HTTP://127.0.0.1",
    "hTTps://localhost",
    "url:http://127.0.0.1/",
    "view-source:http://127.0.0.1/",
    "feed:http://127.0.0.1/",
    "blob:http://127.0.0.1/",
    "javascript:fetch('http://127.0.0.1')",
    "ws://public.example/",
    "wss://public.example/",
    "sftp://public.example/",
    "tftp://public.example/",
    "smb://public.example/",
    "unix:///var/run/docker.sock",
    "http+unix://%2fvar%2frun%2fdocker.sock/",
    "netdoc:///etc/passwd",
    "php://filter",
    "file:/etc/passwd",
    "file://localhost/etc/passwd",
    "FILE:///etc/passwd",
    "gopher://127.0.0.1:6379/_x",
    "https+http://public.example/",
    "http.://public.example/",
    "http ://public.example/",
    "://public.example/",
    "http://?public.example",
    "http://#public.example",
    "http://%/",
    "http://.public.example/",
    "http://public.example../",
    "http://xn--/",
    "http://xn--localhost-.example/",
    "http://xn--a/",
    "http://a.xn--0.example/",
    "http://\u3002localhost/",
    "http://inner.example./",
    "http://INNER.EXAMPLE/",
    "http://inner%2eexample/",
    "http://inner\u3002example/",
    "http://innEr.\u24d4xample/",
    "http://*.public.example/",
    "http://{127.0.0.1,public.example}/",
    "http://[127.0.0.1]/",
    "http://[localhost]/",
    "http://127.0.0.1[/",
    "http://]127.0.0.1/",
    "http://<127.0.0.1>/",
    'http://"127.0.0.1"/',
    "http://'127.0.0.1'/",
    "http://127.0.0.1,public.example/",
    "http://public.example,127.0.0.1/",
    "http://$(hostname)/",
    "http://public.example|127.0.0.1/",
    "http://public.example^127.0.0.1/",
    "http://`id`/",
    "http://~/",
    "http://!/",
    "http://public.example/\ud800",
    "http://public.example/?\udcff",
]

NAMES = {
    "public.example": [PUBLIC],
    "localhost": ["127.0.0.1"],
    "inner.example": ["10.0.0.7"],
    "mixed.example": [PUBLIC, "10.0.0.7"],
    "odd.example": ["no address"],
    "none.example": [],
}


def resolver(host: str, port: int) -> list[str]:
    if host not in NAMES:
        raise OSError("no such name")
    return NAMES[host]


GUARD = AddressPolicy(block_private=True, resolver=resolver)


def in_url(address: str) -> str:
    return f"http://[{address}]/" if ":" in address else f"http://{address}/"


def always(address: str) -> AddressPolicy:
    return AddressPolicy(block_private=True, resolver=lambda host, port: [PUBLIC, address])


class TestJudgement:
    """One address: public, or the reason why not."""

    @pytest.mark.parametrize(("address", "reason"), REFUSED_ADDRESSES.items())
    def test_an_address_that_is_not_public_has_its_reason(self, address, reason):
        """Each row of the table."""
        assert judge(address) == reason

    @pytest.mark.parametrize("address", PUBLIC_ADDRESSES)
    def test_a_public_address_has_none(self, address):
        """Neighbours of the table's rows, and embedded addresses that are public."""
        assert judge(address) is None

    @pytest.mark.parametrize(
        ("address", "reason"), [p for p in REFUSED_ADDRESSES.items() if p[0][0] != "n" and "%" not in p[0]]
    )
    def test_it_is_refused_as_literal(self, address, reason):
        """In a URL."""
        with pytest.raises(AddressRefused, match=rf"address not allowed \({reason}\)"):
            GUARD.check(in_url(address))

    @pytest.mark.parametrize("address", sorted(REFUSED_ADDRESSES))
    def test_it_is_refused_as_one_of_two_answers(self, address):
        """All answers are screened: a public one beside it does not help."""
        with pytest.raises(AddressRefused, match="address not allowed"):
            always(address).check("http://name.example/")

    @pytest.mark.parametrize("address", PUBLIC_ADDRESSES)
    def test_a_public_literal_passes(self, address):
        """And is its own pin."""
        assert GUARD.check(in_url(address)).pins == (str(security.plain_address(address)),)


class TestSpellings:
    """A corpus of ways around the guard."""

    @pytest.mark.parametrize("url", SPELLINGS + MORE_SPELLINGS, ids=ascii)
    def test_none_passes(self, url):
        """Refused, whatever the reason."""
        with pytest.raises(AddressRefused, match=r"^address not allowed"):
            GUARD.check(url)

    @pytest.mark.parametrize("name", ["mixed.example", "odd.example", "none.example", "unknown.example"])
    def test_a_name_without_only_public_addresses_is_refused(self, name):
        """Also one that does not resolve."""
        with pytest.raises(AddressRefused):
            GUARD.check(f"http://{name}/")

    @pytest.mark.parametrize(
        ("url", "sent"),
        [
            (" https://PUBLIC.example. \n", None),
            ("https://public.example", "https://public.example/"),
            ("HTTPS://Public.Example:443/a", "https://public.example/a"),
            ("http://public.example.:8080/a b?q=ü#part", "http://public.example:8080/a%20b?q=%C3%BC"),
            ("http://93.184.55330/x", "http://93.184.216.34/x"),
            ("http://bücher.example/", "http://xn--bcher-kva.example/"),
            ("http://my_host.example/", "http://my_host.example/"),
            ("http://public.example#@127.0.0.1/", "http://public.example/"),
            ("http://public.example?@127.0.0.1/", "http://public.example/?@127.0.0.1/"),
            ("http://public.example:0080/", "http://public.example/"),
            ("http://public.example/%0d%0aX: y", "http://public.example/%0d%0aX:%20y"),
            ("http://public.example/#\r\nb", "http://public.example/"),
            ("http://[2606:4700:0::1]:81?x", "http://[2606:4700::1]:81/?x"),
        ],
    )
    def test_what_was_parsed_is_what_is_sent(self, url, sent):
        """The URL is made from its parts again."""
        assert parse_target(url).url == (sent or parse_target("https://public.example").url)


class TestHosts:
    """`allowedHosts` alone looks nothing up."""

    @pytest.mark.parametrize(
        ("entry", "url", "passes"),
        [
            ("a.example", "http://a.example/", True),
            ("a.example", "http://a.example:8080/", True),
            ("a.example", "http://b.a.example/", False),
            ("a.example", "http://xa.example/", False),
            ("a.example:8080", "http://a.example:8080/", True),
            ("a.example:8080", "http://a.example/", False),
            (".a.example", "http://b.a.example/", True),
            (".a.example", "http://a.example/", False),
            (".a.example", "http://xa.example/", False),
            ("127.0.0.1", "http://2130706433/", True),
            ("[::1]:81", "http://[::1]:81/", True),
            ("[::1]:81", "http://[::1]/", False),
            ("::1", "http://[::1]/", True),
        ],
    )
    def test_an_entry_allows_its_host(self, entry, url, passes):
        """A host, with a port, or all below a domain."""
        policy = AddressPolicy(allowed_hosts=(entry,))
        verdict = passed(policy, url)
        assert verdict is passes

    def test_no_name_is_resolved(self):
        """There is nothing to pin."""
        assert AddressPolicy(allowed_hosts=("a.example",)).check("http://a.example/").pins == ()

    def test_both_controls_must_pass(self):
        """A host of the list that is private stays refused."""
        policy = AddressPolicy(True, ("inner.example",), resolver)
        with pytest.raises(AddressRefused, match="private"):
            policy.check("http://inner.example/")

    @pytest.mark.parametrize(
        ("policy", "guards"),
        [(AddressPolicy(), False), (AddressPolicy(True), True), (AddressPolicy(allowed_hosts=("a",)), True)],
    )
    def test_a_policy_knows_whether_it_guards(self, policy, guards):
        """Neither control set: no guard."""
        assert policy.guards is guards


def passed(policy: AddressPolicy, url: str) -> bool:
    try:
        policy.check(url)
    except AddressRefused:
        return False
    return True


class TestNamedHosts:
    """Hosts that a list names may lie in the own network, where the node says so."""

    POLICY = AddressPolicy(
        True, ("127.0.0.1", "box.lan:81", ".example.org"), lambda *_: ["10.0.0.1"], named_may_be_private=True
    )

    @pytest.mark.parametrize(
        ("url", "may"),
        [
            ("http://127.0.0.1/", True),
            ("http://box.lan:81/", True),
            ("http://box.lan/", False),
            ("http://a.example.org/", False),
            ("http://10.0.0.1/", False),
        ],
    )
    def test_only_whole_names_count(self, url, may):
        """Anybody may have made a subdomain that points inside."""
        assert passed(self.POLICY, url) is may


class TestSystemResolver:
    """The one look-up."""

    def test_it_gives_every_address(self, monkeypatch):
        """In the system's order."""
        answers = [(0, 0, 0, "", (PUBLIC, 80)), (0, 0, 0, "", ("2606:4700::1", 80, 0, 0))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args: answers)
        assert security.system_resolver("a.example", 80) == [PUBLIC, "2606:4700::1"]

    def test_a_failure_is_an_os_error(self, monkeypatch):
        """Whatever the system's reason."""

        def fail(*args):
            raise UnicodeError("label too long")

        monkeypatch.setattr(socket, "getaddrinfo", fail)
        with pytest.raises(OSError, match="cannot be resolved"):
            security.system_resolver("a.example", 80)

    def test_it_has_a_time_limit(self, monkeypatch):
        """A name server that never answers holds no node."""
        release = threading.Event()
        monkeypatch.setattr(security, "RESOLVE_LIMIT_S", 0.01)
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args: release.wait(PATIENCE_S) and [])
        with pytest.raises(TimeoutError):
            security.system_resolver("a.example", 80)
        release.set()
