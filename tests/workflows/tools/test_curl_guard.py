"""Guards of a curl command: inserted options and schemes, and 40 tricks to reach an address nobody judged."""

from __future__ import annotations

import pytest

from Middleware.utilities.network_security_utils import AddressPolicy, AddressRefused
from Middleware.workflows.tools import curl_runner as curl_guard
from Middleware.workflows.tools.curl_arguments import NAME_A_FILE, UnknownOption, read_arguments

PUBLIC = "93.184.216.34"
NAMES = {"a.example": [PUBLIC, "2606:4700::1"], "inner.example": ["10.0.0.1"]}
GUARD = AddressPolicy(block_private=True, resolver=lambda host, port: NAMES.get(host, []))
GOOD = "http://a.example/"

TRICKS = [
    ["http://127.0.0.1/"],
    ["user:pw@10.0.0.1"],
    ["http:/127.0.0.1"],
    ["http://a.b/{10.0.0.1,x}"],
    ["http://{127.0.0.1,a.example}/"],
    ["http://127.0.0.[1-9]/"],
    ["-sLo", "out", "http://10.0.0.1/"],
    ["-sLoout", "10.0.0.1"],
    ["-K", "file", GOOD],
    ["-Kfile", GOOD],
    ["-sKfile", GOOD],
    ["--config", "file", GOOD],
    ["--config=file", GOOD],
    ["--conf", "file", GOOD],
    ["--connect-to", "::127.0.0.1:80", GOOD],
    ["--connect-to=::127.0.0.1:80", GOOD],
    ["--resolve", "a.example:80:127.0.0.1", GOOD],
    ["--unix-socket", "/run/docker.sock", GOOD],
    ["--abstract-unix-socket", "x", GOOD],
    ["--doh-url", "http://127.0.0.1/", GOOD],
    ["--dns-servers", "127.0.0.1", GOOD],
    [GOOD, "--next", "http://127.0.0.1/"],
    [GOOD, "-:", "inner.example"],
    [GOOD, "http://inner.example/"],
    ["--url", "127.0.0.1"],
    ["--url=127.0.0.1", GOOD],
    ["--url", "@list", GOOD],
    ["--", "127.0.0.1"],
    ["localhost:8080"],
    ["[::1]"],
    ["0x7f.1/x"],
    ["2130706433"],
    ["http://a.example@127.0.0.1/"],
    ["http://127.0.0.1\\@a.example/"],
    ["file:///etc/passwd"],
    ["FILE:/etc/passwd"],
    ["gopher://a.example/"],
    ["dict://a.example:11211/"],
    ["telnet://a.example"],
    ["-x", "http://127.0.0.1:3128", GOOD],
    ["-xhttp://127.0.0.1:3128", GOOD],
    ["--proxy", "http://127.0.0.1:3128", GOOD],
    ["--preproxy", "socks5://127.0.0.1", GOOD],
    ["--socks5-hostname", "127.0.0.1", GOOD],
    ["--noproxy", "", GOOD],
    ["--no-globoff", "http://a.example/"],
    ["--proto", "=file", GOOD],
    ["--proto-default", "file", GOOD],
    ["--proto-redir", "=all", GOOD],
    ["--location-trusted", GOOD],
    ["-n", GOOD],
    ["--netrc-file", "f", GOOD],
    ["--alt-svc", "cache", GOOD],
    ["--interface", "lo", GOOD],
    ["--variable", "x=127.0.0.1", "--expand-url", "http://{{x}}/"],
    ["--ipfs-gateway", "http://127.0.0.1", GOOD],
    ["-", GOOD],
    ["", GOOD],
]


MORE_TRICKS = [  # abbreviations, `=` forms, joined letters, letters that look like others, URLs curl reads its own way
    ["-K-", GOOD],
    ["-sSK", "-", GOOD],
    ["--config", "-", GOOD],
    ["--confi", "x", GOOD],
    ["-qK", "x", GOOD],
    ["--variable", "%HOME", GOOD],
    ["--expand-url", "http://{{HOME}}"],
    ["--expand-data", "{{x}}", GOOD],
    ["--url", "file:///etc/passwd"],
    ["--url=file:///etc/passwd"],
    ["--url", ""],
    ["--url", "http://a.example", "--url", "127.0.0.1"],
    ["--url", "a.example", "-:", "--url=127.0.0.1"],
    ["-L", "--location-trusted", GOOD],
    ["--no-proto", GOOD],
    ["--no-resolve", GOOD],
    ["--proto", "all", GOOD],
    ["--proto=-http", GOOD],
    ["--resolv", "a.example:80:127.0.0.1", GOOD],
    ["--connect", "::127.0.0.1:80", GOOD],
    ["--connect-t", "::127.0.0.1:80", GOOD],
    ["--proxy=http://127.0.0.1", GOOD],
    ["--prox", "http://127.0.0.1", GOOD],
    ["-sx", "127.0.0.1:80", GOOD],
    ["-sSfx127.0.0.1:80", GOOD],
    ["--proxy1.0", "127.0.0.1", GOOD],
    ["--socks4", "127.0.0.1", GOOD],
    ["--socks4a", "127.0.0.1", GOOD],
    ["--socks5", "127.0.0.1", GOOD],
    ["-U", "a:b", GOOD],
    ["-p", "-x", "127.0.0.1", GOOD],
    ["--proxytunnel", GOOD],
    ["--haproxy-protocol", GOOD],
    ["--haproxy-clientip", "127.0.0.1", GOOD],
    ["--dns-interface", "lo", GOOD],
    ["--dns-ipv4-addr", "127.0.0.1", GOOD],
    ["--doh-url=https://127.0.0.1", GOOD],
    ["--hsts", "f", GOOD],
    ["--alt-svc=f", GOOD],
    ["-t", "x", GOOD],
    ["-P", "-", GOOD],
    ["-Q", "DELE x", GOOD],
    ["--netrc", GOOD],
    ["-on", GOOD, "127.0.0.1"],
    ["--libcurl", "x", GOOD],
    ["--engine", "x", GOOD],
    ["--krb", "x", GOOD],
    ["--negotiate", GOOD],
    ["--ntlm", GOOD],
    ["--parallel", GOOD, "127.0.0.1"],
    ["-Z", GOOD],
    ["-M"],
    ["-V"],
    ["--version"],
    ["-h", "all"],
    ["--help"],
    ["-\u212a", "f", GOOD],
    ["\u2010K", "f"],
    ["--\u0441onfig", "f", GOOD],
    ["--", "-K", "f"],
    ["--", GOOD, "file:///x"],
    ["[a-z].example"],
    ["a.example:80@127.0.0.1"],
    ["a.example,127.0.0.1"],
    ["http://a.example http://127.0.0.1"],
    ["http://a.example\n--url=127.0.0.1"],
    ["http://a.example\r\nurl = 127.0.0.1"],
    ["\thttp://127.0.0.1"],
    ["http:127.0.0.1"],
    ["http:///127.0.0.1"],
    ["http:\\\\127.0.0.1"],
    ["127.0.0.1\\.a.example"],
    ["//127.0.0.1"],
    ["/etc/passwd"],
    ["?127.0.0.1"],
    ["#"],
    [":80"],
    ["@127.0.0.1"],
    ["localhost"],
    ["LOCALHOST."],
    ["0"],
    ["0x7f000001:80"],
    ["017700000001"],
    ["::1"],
    ["[::ffff:127.0.0.1]:80"],
    ["inner.example:443"],
    ["-w", "x", "--next", "-q", "127.0.0.1"],
    ["-T", "f", "127.0.0.1"],
    ["-G", "-d", "x", "127.0.0.1"],
    ["-I127.0.0.1"],
    ["-0127.0.0.1"],
    ["-v127.0.0.1"],
    ["--interface=lo", GOOD],
    ["--local-port", "1", GOOD],
    ["--abstract-unix-socket=x", GOOD],
    ["--unix-socket=/x", GOOD],
    ["--ftp-port", "127.0.0.1", GOOD],
    ["--mail-rcpt", "a", GOOD],
    ["--tftp-blksize", "1", GOOD],
    ["--ipfs-gateway=http://127.0.0.1", GOOD],
    ["ipfs://x"],
    ["--ech", "x", GOOD],
    ["--unheard=x", GOOD],
    ["-s=x", GOOD],
    ["--silent=", GOOD],
    ["--globoff=x"],
    ["-g", "http://{127.0.0.1}"],
    ["--url-query", "x", " http://127.0.0.1"],
    ["--create-file-mode", "0777", GOOD],
    ["--etag-save", "f", GOOD],
    ["--rate", "1/s", GOOD],
    ["--trace-config", "all", GOOD],
]


@pytest.mark.parametrize("args", TRICKS + MORE_TRICKS, ids=ascii)
def test_no_trick_passes(args):
    """Refused, as an option, as a URL, or because it cannot be read."""
    with pytest.raises((AddressRefused, UnknownOption)):
        judged(args)


def filled(template, value):
    """`{v}` of the template is a run-time value."""
    return curl_guard.FilledCommand(
        template, value, template.partition("{v}")[0] if "{v}" in template else None
    )


def judged(args):
    parts = read_arguments(args)
    curl_guard.refuse_strange_parts(parts)
    return curl_guard.pin_addresses(parts, GUARD)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["-s", "--proto", "=file", GOOD], "argument 2: --proto is not allowed together with a guard"),
        (["-s", GOOD, "http://inner.example/"], "argument 3: "),
    ],
)
def test_a_refusal_names_the_argument(args, message):
    """By its number, as in the list of the node."""
    with pytest.raises(AddressRefused) as caught:
        judged(args)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("url", ["a.example:8080/x", "http://a.example:8080/x"])
def test_where_a_url_leads(url):
    """Without a scheme it is http; nothing is looked up."""
    target = curl_guard.target_of(read_arguments([url])[0])
    assert (target.host, target.port, target.url) == ("a.example", 8080, "http://a.example:8080/x")


def test_a_good_url_is_pinned():
    """curl is told the judged addresses and the URL that was judged."""
    parts = judged(["-s", "A.example:8080/x y"])
    assert [(part.name, part.value) for part in parts] == [
        ("silent", None),
        ("resolve", f"a.example:8080:{PUBLIC},[2606:4700::1]"),
        ("url", "http://a.example:8080/x%20y"),
    ]


def test_an_address_needs_no_pin():
    """Nor does a name that nobody looked up."""
    assert [part.name for part in judged([PUBLIC])] == ["url"]
    by_name = AddressPolicy(allowed_hosts=("a.example",))
    assert [part.name for part in curl_guard.pin_addresses(read_arguments([GOOD]), by_name)] == ["url"]


@pytest.mark.parametrize(
    ("template", "value", "refused"),
    [
        ("{v}", "-o/etc/passwd", True),
        ("{v}", "@/etc/passwd", True),
        ("-{v}", "-s", True),
        ("-s{v}", "-so/tmp/x", True),
        ("--{v}", "--silent", True),
        ("--data{v}", "--data-binary", True),
        ("@{v}", "@file", False),
        ("@{v}", "@/etc/passwd", True),
        ("@file", "@file", False),
        ("{v}", "plain", False),
        ("a={v}", "a=@/etc/passwd", True),
        ("a={v}", "a=</etc/passwd", True),
        ("a={v}", "a=b@c", False),
        ("a@{v}", "a@/etc/passwd", True),
        ("-T{v}", "-T/etc/passwd", True),
        ("-d{v}", "-d@/etc/passwd", True),
        ("-Fa={v}", "-Fa=@/etc/passwd", True),
        ("--data={v}", "--data=@/etc/passwd", True),
        ("-Fa=@x", "-Fa=@x", False),
        ("x{v}", "x", False),
    ],
)
def test_an_inserted_option(template, value, refused):
    """Or the name of a file, also inside an argument."""
    assert bool(curl_guard.insertion_fault(filled(template, value))) is refused


HEAD = [
    "-H",
    "--header",
    "--proxy-header",
    "-A",
    "-e",
    "-b",
    "-X",
    "--request-target",
    "-r",
    "--oauth2-bearer",
]
"""Options whose value stands in a line before the body."""


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r"], ids=repr)
@pytest.mark.parametrize("option", HEAD)
def test_a_line_end_in_a_header(option, end):
    """It would add headers, or a second request to the same server; the author's own line ends stay."""
    value = f"k=a{end}Host: inner{end}{end}GET /admin HTTP/1.1"
    faults = [curl_guard.insertion_fault(filled("k={v}", value), option)]
    if option.startswith("--"):
        faults.append(curl_guard.insertion_fault(filled(f"{option}=k={{v}}", f"{option}={value}")))
    else:
        faults.append(curl_guard.insertion_fault(filled(f"{option}k={{v}}", f"{option}{value}")))
        faults.append(curl_guard.insertion_fault(filled(f"-s{option[1]}k={{v}}", f"-s{option[1]}{value}")))
    assert set(faults) == {curl_guard.ENDS_A_LINE}
    assert curl_guard.insertion_fault(filled("k={v}", "k=a"), option) == ""
    assert curl_guard.insertion_fault(curl_guard.FilledCommand("a\nk={v}", "a\nk=b", "a\nk="), option) == ""


@pytest.mark.parametrize("option", ["-d", "--data-raw", "--json", "--form-string", "-u"])
def test_a_line_end_elsewhere_is_text(option):
    """A body has lines; what stands before a password is encoded."""
    assert curl_guard.insertion_fault(filled("k={v}", "k=a\r\nb"), option) == ""


@pytest.mark.parametrize(
    ("before", "template", "value", "refused"),
    [
        ("-T", "{v}", "/etc/passwd", True),
        ("-sST", "{v}", "/etc/passwd", True),
        ("--upload-file", "{v}", "/etc/passwd", True),
        ("-T", "{v}", "{a,/etc/passwd}", True),
        ("-K", "{v}", "/tmp/x", True),
        ("--config", "{v}", "/tmp/x", True),
        ("-T", "/srv/{v}", "/srv/x", False),
        ("-T", "{v}", "", False),
        ("-Tx", "{v}", "/etc/passwd", False),
        ("--upload-file=x", "{v}", "/etc/passwd", False),
        ("-s", "{v}", "/etc/passwd", False),
        ("", "-sT{v}", "-sT/etc/passwd", True),
        ("", "-sd{v}", "-sd@/etc/passwd", True),
        ("", "-sd{v}", "-sdx", False),
        ("", "--config={v}", "--config=/tmp/x", True),
        ("-F", "{v}", "a=@/etc/passwd", True),
        ("--form", "{v}", "a=</etc/passwd", True),
        ("-F", "x{v}", "xa=@/etc/passwd", True),
        ("-F", "a=b{v}", "a=b;headers=@/etc/passwd", True),
        ("-F", "a=b{v}", "a=b; c=@d", False),
        ("-F", "a={v}", "a=b", False),
        ("--form-string", "{v}", "a=@/etc/passwd", False),
        ("--data-urlencode", "{v}", "a@/etc/passwd", True),
        ("--data-urlencode", "a{v}", "ab@/etc/passwd", True),
        ("--data-urlencode", "{v}", "a=b@c", False),
        ("--data-urlencode", "a={v}", "a=b@c", False),
        ("-F", "a={v}", "a=@/etc/passwd", True),
        ("-F", "a={v}", "a=</etc/passwd", True),
        ("-F", "a{v}", "a=b", False),
        ("-w", "say {v}", "say %output{/tmp/x}", True),
        ("-w", "say {v}", "say @home", False),
        ("-w", "@dir/{v}", "@dir/../x", True),
        ("-w", "@dir/{v}", "@dir/x", False),
        ("-w", "%output{dir/{v}", "%output{dir/a}b/../c", False),
        ("-d", "{v}", "<b>a@c</b>", False),
        ("-d", "a={v}", "a=@/etc/passwd", True),
        ("-d", "a={v}", "a=b@c", False),
        ("-d", "a{v}", "a@/etc/passwd", False),
        ("--json", "a={v}", "a=@/etc/passwd", True),
        ("-H", "X={v}", "X=@/etc/passwd", True),
        ("-H", "X: {v}", "X: @home", False),
        ("", "-sd{v}", "-sd@/etc/passwd", True),
        ("", "--data=a={v}", "--data=a=@/etc/passwd", True),
        ("", "--data=a={v}", "--data=a=b", False),
        ("--url-query", "{v}", "a@/etc/passwd", True),
        ("--url-query", "a={v}", "a=b@c", False),
        ("--variable", "{v}", "a@/etc/passwd", True),
        ("--variable", "a={v}", "a=b@c", False),
        ("--upload", "{v}", "/etc/passwd", True),
        ("--conf", "{v}", "/tmp/x", True),
        ("--data-url", "{v}", "a@/etc/passwd", True),
        ("-b", "{v}", "/etc/passwd", True),
        ("-b", "{v}", "a=b", False),
        ("-b", "a={v}", "a=b", False),
        ("--cookie", "{v}", "", False),
        ("", "-b{v}", "-b/etc/passwd", True),
        ("-w", "{v}", "%output{/tmp/x}hi", True),
        ("-w", "{v}", "%{http_code}", False),
        ("", "-sw{v}", "-sw%output{>>/tmp/x}", True),
        ("--unheard", "{v}", "/etc/passwd", False),
        ("--d", "{v}", "/etc/passwd", False),
        ("url", "{v}", "/etc/passwd", False),
    ],
)
def test_an_inserted_file_behind_an_option(before, template, value, refused):
    """The option may be an argument of its own, or the last of joined letters."""
    assert bool(curl_guard.insertion_fault(filled(template, value), before)) is refused


@pytest.mark.parametrize("option", sorted(NAME_A_FILE))
@pytest.mark.parametrize("form", ["apart", "attached"])
def test_a_value_is_no_file_name(option, form):
    """Of no option that reads, writes or sends a file; only the author says which."""
    template, value = (
        ("{v}", "report.txt") if form == "apart" else (f"--{option}={{v}}", f"--{option}=report.txt")
    )
    before = f"--{option}" if form == "apart" else ""
    assert curl_guard.insertion_fault(filled(template, value), before) == curl_guard.AN_OPTION


@pytest.mark.parametrize(
    ("before", "template", "inserted", "stays"),
    [
        ("-o", "dir/{v}", "report.txt", True),
        ("-o", "dir/{v}", "a/b.txt", True),
        ("-o", "dir/{v}.txt", "..report", True),
        ("-o", "dir/{v}", "../x", False),
        ("-o", "dir/{v}", "a/../../x", False),
        ("-o", "dir/{v}", "..", False),
        ("-o", "dir/.{v}", "./x", False),
        ("-o", "dir/{v}", "a\\..\\..\\x", False),
        ("-o", "dir/{v}", "/etc/x", False),
        ("-o", "out_{v}", "1.txt", True),
        ("-o", "out_{v}", "/../../x", False),
        ("", "-sodir/{v}", "../x", False),
        ("", "-sodir/{v}", "x", True),
        ("", "--output=dir/{v}", "../x", False),
        ("--stderr", "dir/{v}", "../x", False),
        ("-T", "dir/{v}", "../x", False),
        ("-T", "dir/{v}", "{x,y}", False),
        ("-T", "dir/{v}", "[1-9]", False),
        ("-c", "dir/{v}", "../x", False),
        ("-b", "dir/{v}", "../x", False),
        ("-b", "dir/{v}", "jar", True),
        ("-K", "dir/{v}", "../x", False),
        ("-d", "@{v}", "note.txt", True),
        ("-d", "@{v}", "/etc/passwd", False),
        ("-d", "@x/{v}", "/etc/passwd", False),
        ("-d", "@x{v}", "/etc/passwd", True),
        ("-d", "@{v}", "../x", False),
        ("-d", "@{v}", "C:/x", False),
        ("-d", "@dir/{v}", "note.txt", True),
        ("-d", "@dir/{v}", "../x", False),
        ("--json", "@dir/{v}", "../x", False),
        ("-H", "@dir/{v}", "../x", False),
        ("", "-d@dir/{v}", "../x", False),
        ("", "-d@dir/{v}", "x", True),
        ("--data-raw", "@dir/{v}", "../x", True),
        ("--data-urlencode", "name@dir/{v}", "../x", False),
        ("--data-urlencode", "name@dir/{v}", "x", True),
        ("--data-urlencode", "name@{v}", "x", False),
        ("-F", "a=@dir/{v}", "x", True),
        ("-F", "a=@dir/{v}", "../x", False),
        ("-F", "a=@{v}", "x", True),
        ("-F", "a=@{v}", "/etc/passwd", False),
        ("-F", "a=<dir/{v}", "../x", False),
        ("-F", "a=@dir/{v}", "x,/etc/passwd", False),
        ("-F", "a=@dir/{v}", "x;headers=@/etc/passwd", False),
        ("-F", "a=@dir/x;type={v}", "text/plain", True),
        ("-F", "a=@dir/x;type={v}", "text/plain,/etc/passwd", False),
        ("-F", "a=b;headers=@dir/{v}", "../x", False),
        ("-F", "a=b;headers={v}", "@/etc/passwd", False),
        ("-w", "%output{dir/{v}}", "../x", False),
        ("-w", "%output{dir/{v}}", "x", True),
        ("-w", "%output{{v}}", "x", False),
        ("-w", "%output{v}", "{/tmp/x}", False),
        ("", "http://a.example/{v}", "../x", True),
        ("-d", "note={v}", "see ../x", True),
    ],
)
def test_a_file_stays_in_its_folder(before, template, inserted, stays):
    """In the one that the author named, else in the current one."""
    value = template.replace("{v}", inserted)
    assert (curl_guard.insertion_fault(filled(template, value), before) == "") is stays


@pytest.mark.parametrize("option", ["--data-raw", "--form-string", "-A", "-e", "-u", "-X"])
def test_an_option_that_reads_no_file(option):
    """Its value is a text, whatever it looks like."""
    assert curl_guard.insertion_fault(filled("@dir/{v}", "@dir/../x"), option) == ""


@pytest.mark.parametrize("option", ["--data-urlencode", "--url-query", "--variable"])
def test_a_name_and_a_file(option):
    """`name@file` may begin with the name that was filled in; a value behind it may hold any sign."""
    assert curl_guard.insertion_fault(filled("a{v}", "ab@c"), option) == curl_guard.AN_OPTION
    assert curl_guard.insertion_fault(filled("a{v}", "ab=c@d"), option) == ""


def test_the_reasons():
    """As the user reads them."""
    faults = [
        curl_guard.insertion_fault(filled(template, value), before)
        for before, template, value in (
            ("", "{v}", "-s"),
            ("-o", "d/{v}", "d/../x"),
            ("-H", "A: {v}", "A: b\nC: d"),
        )
    ]
    assert faults == [
        "a variable was filled with an option or the name of a file",
        "a variable was filled with a path that leads out of the folder of the argument",
        "a variable was filled with a text that contains a line break, which would add headers or another request",
    ]


def test_what_no_run_decides_is_the_authors():
    """A workflow variable names the folder."""
    written = curl_guard.FilledCommand("{dir}/x", "/srv/../x", None)
    begun = curl_guard.FilledCommand("{dir}/{v}", "/srv/note", "/srv/")
    assert [curl_guard.insertion_fault(each, "-o") for each in (written, begun)] == ["", ""]


@pytest.mark.parametrize(
    ("before", "template", "expected"),
    [
        ("-d", "@{file}", True),
        ("-d", "@dir/{file}", True),
        ("-d", "{text}", False),
        ("-d", "to @{name}", False),
        ("-F", "note=@{file}", True),
        ("-F", "note={text}", False),
        ("", "-d@{file}", True),
        ("", "-sd@{file}", True),
        ("", "--data=@{file}", True),
        ("", "--data={text}", False),
        ("--data-raw", "@{name}", False),
        ("", "--data-raw=@{name}", False),
        ("", "@{file}", True),
        ("-d", "@file", False),
    ],
)
def test_a_file_that_a_variable_names(before, template, expected):
    """The author wrote the `@`; where the option reads no files, it is a text."""
    assert curl_guard.names_a_file_by_variable(template, before) is expected


@pytest.mark.parametrize(
    ("output", "url", "refused"),
    [
        ("dir/#1", "{a,../../x}", True),
        ("dir/#1", "[1-3]", True),
        ("dir/#1", "plain", False),
        ("dir/x", "{a,b}", False),
    ],
)
def test_a_pattern_in_a_url_names_no_file(output, url, refused):
    """curl puts what it made of the pattern in the place of `#1`."""
    base = "http://a.example/"
    args = [filled("-o", "-o"), filled(output, output), filled(base + "{v}", base + url)]
    assert curl_guard.names_a_file_by_pattern(args) is refused


@pytest.mark.parametrize(
    ("more", "refused"),
    [
        ([filled("-d", "-d"), filled("{v}", "{a}")], False),
        ([filled("--url", "--url"), filled("{v}", "{a,b}")], True),
        ([filled("{a,b}.example", "{a,b}.example")], False),
        ([filled("-Z", "-Z"), filled("{v}", "{a,b}")], False),
    ],
    ids=["in-a-body", "in-a-second-url", "the-authors-own", "behind-an-option-nobody-knows"],
)
def test_of_which_patterns_a_file_is_named(more, refused):
    """Of those that were filled into a URL; what cannot be read is refused elsewhere."""
    args = [filled("-odir/#1", "-odir/#1"), filled(GOOD, GOOD), *more]
    assert curl_guard.names_a_file_by_pattern(args) is refused


@pytest.mark.parametrize(
    ("template", "value", "before", "refused"),
    [
        ("{v}", "file:///etc/passwd", "", True),
        ("{v}", " FILE:/etc/passwd", "", True),
        ("{v}", "gopher://a", "", True),
        ("{v}", "https://a", "", False),
        ("file:{v}", "file:/x", "", False),
        ("{v}", "c:/x", "", False),
        ("{v}", "{file}:///etc/passwd", "", True),
        ("{v}", "{file,http}:///etc/passwd", "--url", True),
        ("{v}", "{file}:///etc/passwd", "--", True),
        ("{v}", "[f-f]ile:///etc/passwd", "", True),
        ("{v}", "f{i}le:///etc/passwd", "-s", True),
        ("{v}", "{file:///etc/passwd,x}", "", True),
        ("{v}", "[::1]:80/x", "", False),
        ("{v}", "a.example/{x,y}", "", False),
        ("http://{v}/", "http://{a,b}/", "", False),
        ("{{a,b}}.example", "{a,b}.example", "", False),
        ("{v}", '{"a": "b:c"}', "-d", False),
        ("{v}", '{"a": "b:c"}', "--json", False),
        ("--url={v}", "--url=file:///etc/passwd", "", True),
        ("--url={v}", "--url={file}:///etc/passwd", "", True),
        ("--url={v}", "--url=http://a", "", False),
        ("--url=file:{v}", "--url=file:/x", "", False),
        ("{v}", "Content-Type: a", "-H", False),
        ("{v}", "Content-Type: a", "--header", False),
        ("{v}", "Content-Type: a", "", True),
        ("{v}", "localhost:80/x", "", False),
        ("{v}", "localhost:80", "", False),
        ("{v}", "plain", "", False),
    ],
)
def test_an_inserted_scheme(template, value, before, refused):
    """Headers, and a host with its port, are none."""
    assert curl_guard.inserted_scheme(template, value, before) is refused


COMMAND = [
    "-X",
    "POST",
    "-d",
    "x",
    "-H",
    "Content-Type: a",
    "-H",
    "X-Api-Key: k",
    "-H",
    "A: b",
    "-u",
    "me:pw",
    GOOD,
]


@pytest.mark.parametrize(
    ("status", "same", "left"),
    [
        (302, True, ["X-Api-Key: k", "A: b", "me:pw", "http://b/"]),
        (302, False, ["A: b", "http://b/"]),
        (307, True, ["POST", "x", "Content-Type: a", "X-Api-Key: k", "A: b", "me:pw", "http://b/"]),
        (307, False, ["POST", "x", "Content-Type: a", "A: b", "http://b/"]),
    ],
)
def test_the_next_hop_of_a_redirect(status, same, left):
    """Body and keys are dropped as WebFetch drops them."""
    parts = curl_guard.next_hop(read_arguments(COMMAND), status, "http://b/", same_origin=same)
    assert [part.value for part in parts] == left


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("as_head", [True, False], ids=["head", "post"])
def test_which_redirects_ask_without_a_body(status, as_head):
    """301 to 303, but not for HEAD, which stays one."""
    command = ["-I", GOOD] if as_head else ["-X", "POST", "-d", "x", "-H", "Content-Length: 1", GOOD]
    before = read_arguments(command)
    after = curl_guard.next_hop(before, status, "http://b/", same_origin=True)
    kept = len(after) == len(before)
    assert kept is (as_head or status > 303)
    assert after[-1].value == "http://b/"


@pytest.mark.parametrize(
    "option",
    [
        "-d",
        "--data-ascii",
        "--data-binary",
        "--data-raw",
        "--data-urlencode",
        "--json",
        "-F",
        "--form-string",
        "-T",
    ],
)
def test_what_is_a_body(option):
    """Each kind is left out where the next request has none."""
    parts = curl_guard.next_hop(read_arguments([option, "x", GOOD]), 302, "http://b/", same_origin=True)
    assert [part.name for part in parts] == ["url"]


@pytest.mark.parametrize("option", ["-u", "--oauth2-bearer", "-b", "-E", "--key", "--pass"])
def test_what_is_a_key(option):
    """It goes to no other server."""
    command = read_arguments([option, "x", "-H", "Cookie: c", "-H", "Accept: a", GOOD])
    parts = curl_guard.next_hop(command, 307, "http://b/", same_origin=False)
    assert [part.value for part in parts] == ["Accept: a", "http://b/"]


def test_what_a_run_is_guarded_by():
    """http alone, no patterns in URLs, no passwords of other programs."""
    assert [(part.name, part.value) for part in curl_guard.GUARDED] == [
        ("proto", "=http,https"),
        ("proto-redir", "=http,https"),
        ("proto-default", "http"),
        ("globoff", None),
        ("no-netrc", None),
    ]
