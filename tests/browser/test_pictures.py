"""Pictures for the docs, of the real page on invented runs: written when HEADRACE_PICTURES is set, so that they
never lie (spec console.md 17.1, item 16).
"""

from __future__ import annotations

import os
from http.server import ThreadingHTTPServer
from threading import Thread

import pytest

from tests.browser.conftest import Client, asking, choose_answering, rows, until
from tests.browser.test_find_servers import Ollama, find
from tests.e2e.conftest import HOUSE, NODE
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S

PICTURES = HOUSE / "docs" / "pictures"
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not os.environ.get("HEADRACE_PICTURES"), reason="HEADRACE_PICTURES is not set"),
]

THINKS = {
    "thinkTagNames": ["think"], "removeThinking": True, "startThinkTag": "<think>", "endThinkTag": "</think>",
    "trimBeginningAndEndLineBreaks": True, "removeCustomTextFromResponseStartEndpointWide": True,
    "responseStartTextToRemoveEndpointWide": ["Assistant:"],
}  # fmt: skip
PROMPTED = {**NODE, "lastMessagesToSendInsteadOfPrompt": 0}
REVIEWERS = [
    {**PROMPTED, "title": "Draft", "endpointName": "Small", "prompt": "Write a draft."},
    {**PROMPTED, "title": "Critic: facts", "endpointName": "Small", "prompt": "Check facts. {agent1Output}", "parallelGroup": "critics"},
    {**PROMPTED, "title": "Critic: style", "endpointName": "Other", "prompt": "Check style. {agent1Output}", "parallelGroup": "critics"},
    {**PROMPTED, "title": "Answer", "endpointName": "Big", "prompt": "Answer with care. {agent2Output} {agent3Output}", "returnToUser": True},
    {**PROMPTED, "title": "Notes", "endpointName": "Small", "prompt": "Keep notes. {agent4Output}"},
]  # fmt: skip
USERS = {
    "mira": {"user": {"customWorkflow": "Reviewers"}, "workflows": {"Reviewers": REVIEWERS}, "endpoints": {"Small": {}, "Other": {}, "Big": THINKS}},
    "jo": {},
    "lea": {"user": {"redactLogOutput": True}},
}  # fmt: skip
ANSWER = (
    "The edict was signed in 1598, not in 1589. It ended a war of thirty-six years and let both"
    " confessions worship, with limits that the crown could widen or narrow."
)


def words(text: str) -> list[str]:
    return [f"{word} " for word in text.split(" ")]


def script(backend) -> None:
    thought = (
        "<think>The critics agree that the date is wrong. I must give the year and keep it short.</think>\n\n"
    )
    backend.on(
        "Write a draft", Reply(words("The edict was signed in 1589 and ended a long war."), gap_s=0.12)
    )
    backend.on("Check facts", Reply(words("The year is wrong: it was 1598."), gap_s=0.12))
    backend.on("Check style", Reply(words("Say it in two sentences, and name the limits."), gap_s=0.14))
    backend.on("Answer with care", Reply([*words(thought), "Assistant: ", *words(ANSWER)], gap_s=0.06))
    backend.on("Keep notes", Reply(words("edict 1598"), gap_s=0.4))
    backend.on("a poem", Reply(words("Still water under the wheel, " * 6), gap_s=0.22))
    backend.on("broken", Reply(status=500))
    backend.on("the weather", Reply(words("Rain in the hills, sun by the sea."), gap_s=0.08))


def test_runs_and_a_run_in_both_themes(start, looking, backend):
    script(backend)
    server = start(USERS, "--concurrency", "2")
    question = asking("When was the edict of Nantes signed?")
    for body, path in (
        (asking("the weather", model="jo"), "/api/chat"), (asking("the weather", model="lea"), "/v1/chat/completions"),
        (question, "/v1/chat/completions"), (asking("broken", model="jo"), "/api/chat"), (asking("a poem", model="jo"), "/v1/chat/completions"),
    ):  # fmt: skip
        Client(server, body, path).wait()
    page = looking.open(server, viewport={"width": 1360, "height": 760}, color_scheme="light")
    rows(page, 5)
    page.locator(".row", has_text="Reviewers").click()
    choose_answering(page)
    page.get_by_role("tab", name="Came").click()
    page.locator(".pane del").first.wait_for()
    page.mouse.move(900, 20)
    page.screenshot(path=PICTURES / "console-run.png")
    page.get_by_role("button", name="Light or dark").click()
    page.screenshot(path=PICTURES / "console-run-dark.png")
    page.get_by_role("button", name="Light or dark").click()
    page.wait_for_timeout(1200)  # the pointer came over the list, which holds still for a while
    running = [
        Client(server, body)
        for body in (question, asking("a poem", model="jo"), asking("the weather", model="jo"))
    ]
    page.locator(".row .mark.waiting").wait_for()
    page.locator(".row", has_text="of 5").click()
    page.mouse.move(900, 20)
    page.locator(".head .state.answering").wait_for()
    page.wait_for_timeout(1200)
    page.screenshot(path=PICTURES / "console-runs.png")
    for client in running:
        client.wait(PATIENCE_S)


def test_endpoints_in_both_themes(start, looking, backend):
    script(backend)
    server = start({name: USERS[name] for name in ("mira", "jo")})
    Client(server, asking("When was the edict of Nantes signed?")).wait(PATIENCE_S)
    for _ in range(3):
        Client(server, asking("the weather", model="jo"), "/api/chat").wait()
    Client(server, asking("broken", model="jo"), "/api/chat").wait()
    page = looking.open(server, "#/endpoints", viewport={"width": 1160, "height": 700}, color_scheme="light")
    page.locator(".endpoint.failing .u-wrap").first.wait_for()
    page.mouse.move(700, 20)
    page.wait_for_timeout(800)
    page.screenshot(path=PICTURES / "console-endpoints.png")
    page.get_by_role("button", name="Light or dark").click()
    page.mouse.move(700, 20)
    page.wait_for_timeout(300)
    page.screenshot(path=PICTURES / "console-endpoints-dark.png")


def in_both_themes(page, name):
    for theme in ("", "-dark"):
        page.mouse.move(700, 20)
        page.wait_for_timeout(300)
        page.screenshot(path=PICTURES / f"{name}{theme}.png")
        page.get_by_role("button", name="Light or dark").click()


def test_two_runs_beside_each_other(start, looking, backend):
    """The same question, before and after an edit of the prompt."""
    script(backend)
    server = start(USERS)
    for answer in ("In 1598.", ANSWER):
        backend.on("Answer with care", Reply(words(answer), gap_s=0.06))
        Client(server, asking("When was the edict of Nantes signed?")).wait()
    page = looking.open(server, viewport={"width": 1360, "height": 760}, color_scheme="light")
    rows(page, 2)
    ids = [row.get_attribute("data-id") for row in page.locator(".row").all()]
    page.goto(f"{server.url}/console/#/compare/{ids[1]}/{ids[0]}")
    page.locator(".differs .twosides").first.wait_for()
    in_both_themes(page, "console-compare")


def test_servers_that_are_found(start, looking):
    """One, at its usual port."""
    ollama = ThreadingHTTPServer(("127.0.0.1", 11434), Ollama)
    Thread(target=ollama.serve_forever, daemon=True).start()
    try:
        page = looking.open(
            start(USERS), "#/endpoints", viewport={"width": 1360, "height": 760}, color_scheme="light"
        )
        page.get_by_role("button", name="Find servers").click()
        find(page, "127.0.0.1:11434")
        until(page, lambda: page.locator(".endpoint").count() > 0)
        in_both_themes(page, "console-find-servers")
    finally:
        ollama.shutdown()
        ollama.server_close()
