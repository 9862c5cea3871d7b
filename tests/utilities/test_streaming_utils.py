"""The thin faces of the cleaning engine, and what they log."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import pytest

from Middleware.common.errors import ConfigMissing
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.config.loader import ConfigTree
from Middleware.utilities import streaming_utils
from Middleware.utilities.streaming_utils import (
    StreamingThinkRemover,
    post_process_llm_output,
    remove_thinking_from_text,
    strip_inline_xml_tags,
)

THINK = {"removeThinking": True, "startThinkTag": "<think>", "endThinkTag": "</think>"}
SPEAKER = {"chatCompleteAddUserAssistant": True, "chatCompletionAddMissingAssistantGenerator": True}


@pytest.fixture(autouse=True)
def nothing_was_said_yet():
    streaming_utils._warn_once.cache_clear()


@pytest.fixture
def request_of_anna(tmp_path):
    """A request of user anna, whose file sets both speaker flags."""
    (tmp_path / "Users").mkdir()
    (tmp_path / "Users" / "anna.json").write_text(json.dumps(SPEAKER))
    return RequestContext("r", "anna", "openaichatcompletion", snapshot=ConfigTree(tmp_path).snapshot())


class TestPostProcess:
    def test_runs_all_rules(self):
        node = {"removeCustomTextFromResponseStart": True, "responseStartTextToRemove": "OK,"}
        text = "<think>a</think> OK, Assistant: b "

        assert post_process_llm_output(text, THINK, node, user_config=SPEAKER) == "b "

    @pytest.mark.parametrize("text", ["", None])
    def test_nothing_stays_nothing(self, text):
        assert post_process_llm_output(text, THINK, {}) == ""

    def test_group_chat(self):
        assert post_process_llm_output("Hi", {}, {}, generation_prompt="Bo:") == "Bo: Hi"

    def test_outside_a_request_both_speaker_flags_are_off(self):
        assert post_process_llm_output("Assistant: a", {}, {}) == "Assistant: a"

    def test_inside_one_its_user_decides(self, request_of_anna):
        with enter_request(request_of_anna):
            assert post_process_llm_output("Assistant: a", {}, {}) == "a"

    def test_a_user_that_is_given_goes_before_the_request(self, request_of_anna):
        with enter_request(request_of_anna):
            assert post_process_llm_output("Assistant: a", {}, {}, user_config={}) == "Assistant: a"

    def test_a_user_without_a_file_is_an_error(self, request_of_anna):
        with enter_request(replace(request_of_anna, user="nobody")), pytest.raises(ConfigMissing):
            post_process_llm_output("a", {}, {})

    def test_a_request_without_configuration_has_no_user(self, request_of_anna):
        with enter_request(replace(request_of_anna, snapshot=None)):
            assert post_process_llm_output("Assistant: a", {}, {}) == "Assistant: a"

    @pytest.mark.parametrize(("suppressed", "expected"), [(True, "a<think>b"), (False, "a")])
    def test_a_request_that_wants_no_thoughts_gets_its_text_back(self, request_of_anna, suppressed, expected):
        """Thoughts that are dropped did not go out, so an unclosed block may be kept."""
        with enter_request(replace(request_of_anna, suppress_reasoning=suppressed)):
            assert post_process_llm_output("a<think>b", {**THINK, "reasoningOutput": "field"}, {}) == expected


class TestLogging:
    NODE = {"endpointName": "Big"}  # noqa: RUF012

    def lines(self, caplog):
        return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]

    def test_a_fault_of_the_configuration_is_said_once(self, caplog):
        for _ in range(3):
            post_process_llm_output("a", {"removeThinking": True}, self.NODE)

        assert len(self.lines(caplog)) == 1
        assert self.lines(caplog)[0].startswith("endpoint 'Big': removeThinking is on but startThinkTag")

    def test_dropped_text_is_said_each_time(self, caplog):
        endpoint = {**THINK, "whenEndThinkTagMissing": "discard"}
        for _ in range(2):
            post_process_llm_output("a<think>", endpoint, self.NODE)

        assert len(self.lines(caplog)) == 2
        assert all(
            "endpoint 'Big'" in line and "7 characters were dropped" in line for line in self.lines(caplog)
        )

    def test_an_answer_that_was_all_thought(self, caplog):
        post_process_llm_output("<think>a</think>\n", THINK, self.NODE)

        assert self.lines(caplog) == [
            "endpoint 'Big': the answer is empty after cleaning, because all of it was thinking (rule: removeThinking)"
        ]

    @pytest.mark.parametrize("text", ["", "a", "<think>a</think>b"])
    def test_nothing_to_say(self, caplog, text):
        post_process_llm_output(text, THINK, self.NODE)
        assert self.lines(caplog) == []


class TestThinkingAlone:
    def test_whole_text(self):
        """No other rule runs: white space stays."""
        endpoint = {**THINK, "stripInlineXmlTags": True, "trimBeginningAndEndLineBreaks": True}

        assert remove_thinking_from_text(" <think>a</think> <b/> ", endpoint) == "  <b/> "
        assert remove_thinking_from_text(None, endpoint) == ""

    def test_stream(self):
        remover = StreamingThinkRemover(THINK)

        assert [remover.process_delta(text) for text in (" <th", "ink>a</think>", None, " b")] == [
            " ",
            "",
            "",
            " b",
        ]
        assert remover.finalize() == ""

    def test_the_end_gives_what_was_held(self):
        remover = StreamingThinkRemover(THINK)
        remover.process_delta("<think>a")
        assert remover.finalize() == "<think>a"

    def test_warns_too(self, caplog):
        remove_thinking_from_text("a", {"removeThinking": True})
        assert "no thinking is removed" in caplog.text


def test_inline_xml_alone():
    assert strip_inline_xml_tags("a <b>c</b> d", tags=["b"], collapse_whitespace=False) == "a  d"
