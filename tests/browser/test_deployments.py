"""The console below a path of nginx with TLS, and on gunicorn (spec console.md 17.1, item 15; 17.2, row 14)."""

from __future__ import annotations

import datetime
import ipaddress
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.browser.conftest import Client, asking, rows, until
from tests.e2e.conftest import Gunicorn, GunicornOfTheHouse, Server, free_port, write_tree
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.browser

KEY = "k2345678"
LONG = Reply(["one", *[" more"] * 40], gap_s=0.25)
CONF = """daemon off; master_process off; pid {folder}/pid; error_log stderr; events {{}}
http {{
  access_log off; client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  server {{
    listen 127.0.0.1:{port} ssl; ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
    location /x/ {{
      proxy_pass http://127.0.0.1:{upstream}/; proxy_http_version 1.1; proxy_set_header Host $host:$server_port;
      proxy_set_header X-Forwarded-For $remote_addr; proxy_read_timeout 3600s;
    }}
  }}
}}
"""


def certificate(folder: Path) -> None:
    """A key and a certificate that it signed itself, for this machine."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


@pytest.fixture
def proxied(start, tmp_path: Path) -> Iterator[tuple[Server, SimpleNamespace]]:
    """A server, and the address at which nginx shows it: `https://127.0.0.1:<port>/x`."""
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not installed (Debian package nginx)")
    server = start(None, "--console-key", KEY, "--concurrency", "1")
    folder, port = tmp_path / "nginx", free_port()
    folder.mkdir()
    certificate(folder)
    (folder / "nginx.conf").write_text(
        CONF.format(folder=folder, port=port, upstream=server.port), encoding="utf-8"
    )
    process = subprocess.Popen(["nginx", "-c", str(folder / "nginx.conf")], stderr=subprocess.DEVNULL)
    yield server, SimpleNamespace(url=f"https://127.0.0.1:{port}/x")
    process.terminate()
    process.wait(PATIENCE_S)


class TestBelowAPath:
    def test_every_page_works_with_the_key_and_events_come(self, proxied, looking, backend):
        backend.on("Tell me", Reply(["one", *[" more"] * 8], gap_s=0.25))
        server, outside = proxied
        looking.expected.append("401")
        page = looking.open(outside, ignore_https_errors=True)
        page.locator("input[type=password]").fill(KEY)
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="No request yet").wait_for()
        client = Client(server, asking("Tell me"))
        page.locator(".row .mark.answering").wait_for()
        client.wait()
        page.locator(".row .mark.done").wait_for()
        for name, sign in (
            ("Workflows", ".tree a"),
            ("Endpoints", ".endpoint"),
            ("Overview", ".plot"),
            ("Help", ".prose h1"),
        ):
            page.get_by_role("link", name=name, exact=True).click()
            page.locator(sign).first.wait_for()
        assert page.url.startswith(f"{outside.url}/console/#/help")

    def test_the_servers_own_address_leads_a_browser_there(self, proxied, chromium):
        _, outside = proxied
        context = chromium.new_context(ignore_https_errors=True)
        page = context.new_page()
        page.goto(f"{outside.url}/")
        assert page.url == f"{outside.url}/console/"
        context.close()


@pytest.fixture(params=[Gunicorn, GunicornOfTheHouse], ids=["gevent", "of-the-house"])
def gunicorn(request, tmp_path: Path, backend) -> Iterator[Server]:
    users = {"mira": {}}
    write_tree(tmp_path / "gunicorn", users, backend.url)
    server = request.param(tmp_path / "gunicorn", users, ("--concurrency", "1"))
    yield server
    server.stop()


class TestGunicorn:
    def test_a_request_appears_while_it_runs_and_is_cancelled_from_the_page(self, gunicorn, looking, backend):
        backend.on("Tell me", LONG)
        page = looking.open(gunicorn)
        page.get_by_role("heading", name="No request yet").wait_for()
        client = Client(gunicorn, asking("Tell me"))
        page.locator(".row .mark.answering").click()
        page.get_by_role("button", name="Cancel").click()
        client.wait()
        page.locator(".row .mark.cancelled").wait_for()
        assert backend.calls("Tell me")[0].hung_up.wait(PATIENCE_S)
        until(page, lambda: "the console" in page.locator(".run").inner_text())

    def test_two_pages_see_the_same(self, gunicorn, looking):
        pages = [looking.open(gunicorn), looking.open(gunicorn)]
        Client(gunicorn, asking("Hello")).wait()
        for page in pages:
            rows(page, 1)
