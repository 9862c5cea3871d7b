"""A user file becomes one frozen value with every default."""

from __future__ import annotations

import dataclasses
import logging

import pytest

from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.config.users import (
    SETTINGS,
    UserSettings,
    load_user,
    means_true,
    pointer_user,
    read_steady_window,
    settings_of,
    user_names,
)
from Middleware.config.validation import check_file, schema

VALUES = [
    ("number", {"port": 5061}, "port", 5061),
    ("default", {}, "port", 5000),
    ("null-is-absent", {"port": None}, "port", 5000),
    ("empty-text-is-absent", {"sharedWorkflowsSubDirectoryOverride": ""}, "shared_workflows_sub_directory_override", "_shared"),
    ("truthy-flag", {"customWorkflowOverride": 1}, "custom_workflow_override", True),
    ("attempts-below-one", {"maxCategorizationAttempts": 0}, "max_categorization_attempts", 1),
    ("attempts", {"maxCategorizationAttempts": 3}, "max_categorization_attempts", 3),
    ("number-as-text", {"staticStreamDelayMs": "20"}, "static_stream_delay_ms", 20),
    ("no-number", {"staticStreamDelayMs": "x"}, "static_stream_delay_ms", 0),
    ("wrong-type-of-text", {"customWorkflow": 5}, "custom_workflow", ""),
    ("variables", {"userWideWorkflowVariables": {"a": 1}}, "user_wide_workflow_variables", {"a": 1}),
    ("variables-no-object", {"userWideWorkflowVariables": [1]}, "user_wide_workflow_variables", {}),
    ("clamp-word", {"clampPromptToContextWindow": " Yes "}, "clamp_prompt_to_context_window", True),
    ("clamp-other-word", {"clampPromptToContextWindow": "maybe"}, "clamp_prompt_to_context_window", False),
    ("steady", {"steadyWindow": True}, "steady_window", True),
    ("steady-by-a-number", {"steadyWindow": 30}, "steady_window", 30),
    ("steady-by-the-compactor", {"steadyWindow": "compactor"}, "steady_window", "compactor"),
    ("steady-no-such-value", {"steadyWindow": "often"}, "steady_window", False),
    ("steady-too-few", {"steadyWindow": 7}, "steady_window", False),
    ("roots", {"pythonModuleRoots": ["/a"]}, "python_module_roots", ("/a",)),
    ("roots-empty", {"pythonModuleRoots": []}, "python_module_roots", ()),
    ("roots-absent", {}, "python_module_roots", None),
    ("roots-no-list", {"pythonModuleRoots": "/a"}, "python_module_roots", None),
    ("web-ui-task", {"openWebUITaskWorkflow": "Tasks"}, "open_web_ui_task_workflow", "Tasks"),
    ("web-ui-tools", {"interceptOpenWebUIToolRequests": True}, "intercept_open_web_ui_tool_requests", True),
    ("liveness", {"livenessToolCall": {"toolName": " ping "}}, "liveness_tool_call", {"toolName": "ping", "arguments": {}}),
    ("liveness-arguments", {"livenessToolCall": {"toolName": "p", "arguments": {"a": 1}}}, "liveness_tool_call", {"toolName": "p", "arguments": {"a": 1}}),
    ("liveness-malformed", {"livenessToolCall": {"arguments": {}}}, "liveness_tool_call", None),
    ("liveness-bad-arguments", {"livenessToolCall": {"toolName": "p", "arguments": 5}}, "liveness_tool_call", None),
    ("liveness-no-object", {"livenessToolCall": "p"}, "liveness_tool_call", None),
]  # fmt: skip


@pytest.mark.parametrize(("document", "name", "value"), [c[1:] for c in VALUES], ids=[c[0] for c in VALUES])
def test_values(document, name, value):
    assert getattr(settings_of("ana", document), name) == value


def test_a_malformed_liveness_call_is_warned_of(caplog):
    settings_of("ana", {"livenessToolCall": 5})
    assert [r.levelno for r in caplog.records] == [logging.WARNING]


@pytest.mark.parametrize("key", SETTINGS)
def test_a_setting_is_a_field_of_the_schema(key):
    """With a sentence, and a default that the file might say too and that is then the same."""
    stated = schema("user")["properties"][key]
    assert stated["description"]
    default = getattr(UserSettings("ana"), SETTINGS[key].attribute)
    if "default" in stated:
        assert stated["default"] == default and check_file("Users/ana.json", {key: default}) == []
    said = {} if default is None else {key: default}
    assert getattr(settings_of("ana", said), SETTINGS[key].attribute) == default


def test_settings_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        UserSettings("ana").port = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("value", "truth"), [("on", True), ("1", True), ("0", False), (True, True), (None, False)]
)
def test_words_for_true(value, truth):
    assert means_true(value) is truth


OFF = [
    "customWorkflowOverride",
    "allowSharedWorkflows",
    "chatCompleteAddUserAssistant",
    "chatCompletionAddMissingAssistantGenerator",
    "separateConversationInVariables",
    "clampPromptToContextWindow",
    "encryptUsingApiKey",
    "redactLogOutput",
    "interceptOpenWebUIToolRequests",
    "useOfflineWikiApi",
    "useOfflineResearcherApi",
    "useFileLogging",
]
EMPTY = [
    "customWorkflow",
    "routingConfig",
    "categorizationWorkflow",
    "discussionIdMemoryFileWorkflowSettings",
    "fileMemoryToolWorkflow",
    "chatSummaryToolWorkflow",
    "conversationMemoryToolWorkflow",
    "recentMemoryToolWorkflow",
    "contextCompactorSettingsFile",
    "discussionDirectory",
    "sqlLiteDirectory",
    "endpointConfigsSubDirectory",
    "workflowConfigsSubDirectoryOverride",
    "presetConfigsSubDirectoryOverride",
    "structuredOutputConfigsSubDirectory",
    "chatPromptTemplateName",
    "openWebUITaskWorkflow",
    "embeddingsEndpoint",
    "discussionIdFromHeader",
    "offlineWikiApiUrl",
]
UNSET = ["livenessToolCall", "pythonModuleRoots"]
OTHERS = {
    "port": 5000,
    "maxCategorizationAttempts": 1,
    "sharedWorkflowsSubDirectoryOverride": "_shared",
    "conversationSeparationDelimiter": "\n",
    "userWideWorkflowVariables": {},
    "connectTimeoutInSeconds": 30,
    "offlineWikiApiHost": "127.0.0.1",
    "offlineWikiApiPort": 5728,
    "offlineResearcherApiHost": "127.0.0.1",
    "offlineResearcherApiPort": 8890,
    "maxWorkflowDepth": 64,
    "maxParallelNodes": 4,
    "staticStreamDelayMs": 0,
    "advertisedContextLength": 131072,
    "progressOutput": "off",
    "outboundPolicy": "off",
}
DEFAULTS = {**dict.fromkeys(OFF, False), **dict.fromkeys(EMPTY, ""), **dict.fromkeys(UNSET), **OTHERS}


def test_what_holds_without_a_key():
    """Of the keys of a user file."""
    assert {name: SETTINGS[name].absent for name in DEFAULTS} == DEFAULTS
    user = settings_of("ana", {})
    assert {name: getattr(user, SETTINGS[name].attribute) for name in DEFAULTS} == DEFAULTS


class TestFiles:
    def test_the_name_is_lowered_for_the_file_alone(self, configs):
        configs.put("Users/ana.json", {"port": 1})
        user = load_user(configs.snapshot(), "Ana")
        assert (user.name, user.port, user.workflow_folder, dict(user.raw)) == ("Ana", 1, "Ana", {"port": 1})

    def test_a_file_in_another_case_is_found(self, configs):
        configs.put("Users/Ana.json", {"port": 1})
        assert load_user(configs.snapshot(), "ana").port == 1

    def test_a_missing_user_is_named_with_the_nearest(self, configs):
        configs.put("Users/anna.json", {"port": 5000})
        with pytest.raises(ConfigMissing, match="did you mean 'anna'"):
            load_user(configs.snapshot(), "ana")
        with pytest.raises(ConfigMissing, match="there are: anna"):
            load_user(configs.snapshot(), "zz")

    def test_two_requests_share_the_settings(self, configs):
        configs.put("Users/ana.json", {"port": 5000})
        assert load_user(configs.snapshot(), "ana") is load_user(configs.snapshot(), "ana")

    def test_user_names_leave_the_pointer_out(self, configs):
        configs.put("Users/_current-user.json", {"currentUser": "ana"})
        configs.put("Users/ana.json", {"port": 5000})
        assert user_names(configs.snapshot()) == ["ana"]
        assert pointer_user(configs.snapshot()) == "ana"

    def test_any_other_name_that_begins_with_an_underscore_is_a_user(self, configs):
        """Only `_current-user.json` is the pointer; a folder below `Users/` holds no users."""
        configs.put("Users/_current-user.json", {"currentUser": "_ana"})
        configs.put("Users/_ana.json", {"port": 5001})
        configs.put("Users/old/tom.json", {"port": 5002})
        snapshot = configs.snapshot()
        assert user_names(snapshot) == ["_ana"]
        assert load_user(snapshot, pointer_user(snapshot)).port == 5001

    def test_an_archived_user_cannot_be_named(self, configs):
        configs.put("Users/old/tom.json", {"port": 5002})
        with pytest.raises(ConfigError, match="'old/tom' cannot be the name of a user"):
            load_user(configs.snapshot(), "old/tom")

    def test_the_pointer_is_no_user(self, configs):
        configs.put("Users/_current-user.json", {"currentUser": "ana"})
        with pytest.raises(ConfigMissing, match="no user '_current-user'"):
            load_user(configs.snapshot(), "_current-user")

    def test_a_blank_pointer_is_an_error(self, configs):
        configs.put("Users/_current-user.json", {"currentUser": " "})
        with pytest.raises(ConfigError, match="found no name, allowed: the name of a user") as caught:
            pointer_user(configs.snapshot())
        assert (caught.value.file, caught.value.pointer) == ("Users/_current-user.json", "/currentUser")

    def test_where_its_workflows_are(self):
        """Its own, and those that can be picked as models."""
        user = settings_of("Ana", {"sharedWorkflowsSubDirectoryOverride": "team/"})
        assert (user.workflow_folder, user.shared_folder) == ("Ana", "Workflows/team")


STEADY = [  # what is written, what is read
    (True, True),
    (False, False),
    (" True ", True),
    ("false", False),
    (8, 8),
    ("8", 8),
    (1000, 1000),
    (7, None),
    (1001, None),
    ("7", None),
    (8.5, None),
    ("compactor", "compactor"),
    (" Compactor", "compactor"),
    ("perhaps", None),
    ([8], None),
    (None, None),
]


@pytest.mark.parametrize(("written", "read"), STEADY, ids=[repr(case[0]) for case in STEADY])
def test_a_steady_window(written, read):
    """A truth, 8 to 1000 messages more, or where the compactor's summary ends; also as a text."""
    found = read_steady_window(written)
    assert found == read and type(found) is type(read)


@pytest.mark.parametrize(
    ("written", "good"), [(8, True), (1000, True), (7, False), (1001, False), (True, True)]
)
def test_a_steady_window_is_checked_by_the_same_bounds(written, good):
    assert (check_file("Users/a.json", {"steadyWindow": written}) == []) is good
