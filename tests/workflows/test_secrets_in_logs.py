"""No secret of a tool node reaches the log, at any level, whatever comes of the call."""

from __future__ import annotations

import json
import logging
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SECRETS = st.text(string.ascii_letters + string.digits, min_size=12, max_size=24).map(
    lambda text: f"Zq{text}"
)
SCRIPT = "def Invoke(*args, **kwargs):\n    raise ValueError(f'{args} {kwargs}')\n"


def nodes_with(secret: str, url: str, script: str) -> dict[str, dict]:
    headers = {"X-Mine": secret, "X-Env": "${ENV:LOG_TEST_KEY}"}
    fetch = {"type": "WebFetch", "headers": headers, "method": "POST", "body": secret}
    curl = ["-sS", "-H", f"X-Mine: {secret}", "-u", f"me:{secret}", "-d", secret]
    return {
        "fetch": {**fetch, "url": f"{url}/{secret}?q={secret}"},
        "fetch-refused": {
            **fetch,
            "url": f"http://me:{secret}@127.0.0.1/{secret}",
            "blockPrivateAddresses": True,
        },
        "fetch-nobody": {**fetch, "url": f"http://127.0.0.1:9/{secret}?q={secret}"},
        "fetch-header": {**fetch, "url": url, "headers": {"X-Mine": f"{secret}\n"}},
        "curl": {"type": "CurlCommand", "args": [*curl, f"{url}/{secret}"]},
        "curl-verbose": {"type": "CurlCommand", "args": ["-v", *curl, "-f", f"{url}/missing"]},
        "curl-refused": {
            "type": "CurlCommand",
            "args": [*curl, f"{url}/{secret}"],
            "blockPrivateAddresses": True,
        },
        "curl-unknown": {"type": "CurlCommand", "args": [*curl, "--unheard"], "allowedHosts": ["a"]},
        "script": {
            "type": "PythonModule",
            "module_path": script,
            "args": [secret],
            "kwargs": {"key": secret},
        },
    }


KINDS = sorted(nodes_with("", "", ""))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=3, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(secret=SECRETS)
def test_no_record_shows_it(house, site, caplog, monkeypatch, tmp_path, kind, secret):
    """Neither a message nor a traceback, before the filter has seen them."""
    caplog.set_level(logging.DEBUG)
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    caplog.clear()
    (tmp_path / "tool.py").write_text(SCRIPT)
    monkeypatch.setenv("LOG_TEST_KEY", secret)
    node = nodes_with(secret, site.url(""), str(tmp_path / "tool.py"))[kind]
    house.ask({**node, "onNodeError": "continue"})
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("Middleware")]
    assert lines
    assert secret not in json.dumps(lines)
    assert secret not in "".join(str(record.exc_text) for record in caplog.records)
