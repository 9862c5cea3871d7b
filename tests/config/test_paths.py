"""Names become paths below the config root, or are refused."""

from __future__ import annotations

import pytest

from Middleware.common.errors import ConfigError
from Middleware.config import paths
from Middleware.config.users import UserSettings

ANA = UserSettings("ana")
LAN = UserSettings(
    "ana",
    endpoint_configs_sub_directory="lan/fast/",
    preset_configs_sub_directory_override="p",
    workflow_configs_sub_directory_override="flows",
    structured_output_configs_sub_directory="so",
    shared_workflows_sub_directory_override="team",
)

FLAT = [("a", True), ("a b.c", True), ("..a", True), ("", False), (".", False), ("..", False), ("a/b", False), ("a\\b", False), ("a:b", False), ("a\0", False), (None, False), (5, False), ("é" * 127, True), ("é" * 128, False), ("x" * 255, True), ("x" * 256, False), ("x\ud800", False)]  # fmt: skip


@pytest.mark.parametrize(("value", "flat"), FLAT, ids=[repr(c[0]) for c in FLAT])
def test_flat_names(value, flat):
    assert paths.is_flat_name(value) is flat


@pytest.mark.parametrize("value", ["a", "..a", ".hidden", ".locks", "making-a", "a.lock", "é"])
def test_a_flat_name_is_a_discussion_id(value):
    assert paths.is_discussion_id(value)


HOUSE = [" ", "\t", "", "a/b", None, ".lock", ".LOCK", ".making-a", ".importing-a", ".memory.lease", ".x.tmp", ".x.partial", ".rekey_journal.json"]  # fmt: skip


@pytest.mark.parametrize("value", HOUSE, ids=repr)
def test_a_blank_name_and_those_of_the_house_are_no_discussion_ids(value):
    """What is made, locked or half written beside discussions must not be taken for one."""
    assert not paths.is_discussion_id(value)


BUILT = [
    (paths.user_file("Ana"), "Users/ana.json"),
    (paths.endpoint_file(ANA, "x"), "Endpoints/x.json"),
    (paths.endpoint_file(LAN, "d/x"), "Endpoints/lan/fast/d/x.json"),
    (paths.preset_files(ANA, "T", "x"), ("Presets/T/ana/x.json", "Presets/T/x.json")),
    (paths.preset_files(LAN, "", "x"), ("Presets/p/x.json", "Presets/x.json")),
    (paths.api_type_file("A"), "ApiTypes/A.json"),
    (paths.prompt_template_file("_chatonly"), "PromptTemplates/_chatonly.json"),
    (paths.routing_file("r"), "Routing/r.json"),
    (paths.mcp_server_file("m"), "MCPServers/m.json"),
    (paths.structured_output_files(ANA, "s"), ("StructuredOutputs/ana/s.json", "StructuredOutputs/s.json")),
    (paths.structured_output_files(LAN, "s"), ("StructuredOutputs/so/s.json", "StructuredOutputs/s.json")),
    (ANA.workflow_folder, "ana"),
    (LAN.workflow_folder, "flows"),
    (paths.workflow_file("a/b", "tools/x"), "Workflows/a/b/tools/x.json"),
    (paths.workflow_file("a", "../b/x"), "Workflows/b/x.json"),
    (ANA.shared_folder, "Workflows/_shared"),
    (LAN.shared_folder, "Workflows/team"),
    (paths.shared_workflow_folder(LAN, "x"), "team/x"),
]


@pytest.mark.parametrize(("path", "expected"), BUILT, ids=[str(c[1]) for c in BUILT])
def test_paths(path, expected):
    assert path == expected


ENDPOINT_NAMES = [
    (ANA, "Endpoints/Main.json", "Main"),
    (ANA, "Endpoints/Main.example.json", "Main"),
    (LAN, "Endpoints/lan/fast/d/Main.example.json", "d/Main"),
]


@pytest.mark.parametrize(("user", "file", "name"), ENDPOINT_NAMES, ids=[c[1] for c in ENDPOINT_NAMES])
def test_an_endpoint_has_one_name_with_two_files(user, file, name):
    """The user's own comes before the example."""
    assert paths.endpoint_name(user, file) == name
    own, example = paths.endpoint_files(user, name)
    assert own == f"{paths.endpoint_folder(user)}{name}.json"
    assert example == f"{paths.endpoint_folder(user)}{name}.example.json"


KINDS = [
    (paths.is_user_pointer, "Users/_current-user.json", True),
    (paths.is_user_pointer, "users/_Current-User.json", True),
    (paths.is_user_pointer, "Users/_other.json", False),
    (paths.is_archived_user, "Users/old/ana.json", True),
    (paths.is_archived_user, "Users/ana.json", False),
    (paths.is_archived_user, "Endpoints/old/ana.json", False),
    (paths.is_tool_file, "Workflows/_shared/Trip/_mcpTool.json", True),
    (paths.is_tool_file, "Workflows/_shared/Trip/_DefaultWorkflow.json", False),
    (paths.is_tool_file, "Workflows/_shared/Trip/x_mcpTool.json", False),
    (paths.is_tool_file, "Endpoints/Trip/_mcpTool.json", False),
]


@pytest.mark.parametrize(("asked", "file", "is_one"), KINDS, ids=[f"{c[0].__name__}-{c[1]}" for c in KINDS])
def test_what_a_file_is_by_its_place(asked, file, is_one):
    """The pointer to the user, a user put away, a workflow made a tool."""
    assert asked(file) is is_one


REFUSED = [
    ("user", lambda: paths.user_file("../x")),
    ("endpoint-up", lambda: paths.endpoint_file(ANA, "../ana/x")),
    ("endpoint-empty-part", lambda: paths.endpoint_file(ANA, "a//b")),
    ("endpoint-backslash", lambda: paths.endpoint_file(ANA, "a\\b")),
    ("endpoint-drive", lambda: paths.endpoint_file(ANA, "c:x")),
    ("endpoint-empty", lambda: paths.endpoint_file(ANA, "")),
    ("endpoint-number", lambda: paths.endpoint_file(ANA, 5)),
    ("endpoint-folder", lambda: paths.endpoint_file(UserSettings("a", endpoint_configs_sub_directory="../x"), "y")),
    ("api-type", lambda: paths.api_type_file("/etc/x")),
    ("preset", lambda: paths.preset_files(ANA, "T", "../x")),
    ("preset-type", lambda: paths.preset_files(ANA, "../T", "x")),
    ("template", lambda: paths.prompt_template_file("..")),
    ("routing", lambda: paths.routing_file("../x")),
    ("mcp", lambda: paths.mcp_server_file("a/b")),
    ("structured", lambda: paths.structured_output_files(ANA, "a/b")),
    ("workflow-out", lambda: paths.workflow_file("a", "../../x")),
    ("workflow-absolute", lambda: paths.workflow_file("a", "/x")),
    ("workflow-folder-absolute", lambda: paths.workflow_file("/a", "x")),
    ("workflow-backslash", lambda: paths.workflow_file("a", "b\\x")),
    ("workflow-empty", lambda: paths.workflow_file("a", "")),
    ("shared", lambda: paths.shared_folder(UserSettings("a", shared_workflows_sub_directory_override="../.."))),
]  # fmt: skip


@pytest.mark.parametrize("build", [c[1] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_names_that_leave_their_folder_are_refused(build):
    with pytest.raises(ConfigError):
        build()


LEADS_OUT = "because it is empty or leads out of its folder"
PLAIN = "it must be a plain file name"
MESSAGES = [
    (lambda: paths.user_file("a/b"), f"'a/b' cannot be the name of a user; {PLAIN}"),
    (lambda: paths.endpoint_file(ANA, ".."), f"'..' cannot be the name of an endpoint, {LEADS_OUT}"),
    (lambda: paths.endpoint_folder(UserSettings("a", endpoint_configs_sub_directory="/x")), f"'/x' cannot be the name of an endpoint folder, {LEADS_OUT}"),
    (lambda: paths.api_type_file(""), f"'' cannot be the name of an API type, {LEADS_OUT}"),
    (lambda: paths.preset_files(ANA, "T", "."), f"'.' cannot be the name of a preset, {LEADS_OUT}"),
    (lambda: paths.preset_files(ANA, "..", "x"), f"'..' cannot be the name of a preset type, {LEADS_OUT}"),
    (lambda: paths.preset_files(UserSettings("..x/.."), "T", "x"), f"'..x/..' cannot be the name of a preset folder, {LEADS_OUT}"),
    (lambda: paths.prompt_template_file(None), f"None cannot be the name of a prompt template, {LEADS_OUT}"),
    (lambda: paths.routing_file("a:b"), f"'a:b' cannot be the name of a routing file, {LEADS_OUT}"),
    (lambda: paths.mcp_server_file("a/b"), f"'a/b' cannot be the name of an MCP server; {PLAIN}"),
    (lambda: paths.structured_output_files(ANA, "a/b"), "structuredOutputFile 'a/b' must be a plain file name, without folders"),
    (lambda: paths.structured_output_files(UserSettings("../a"), "s"), f"'../a' cannot be the name of a structured output folder, {LEADS_OUT}"),
    (lambda: paths.workflow_file("a", "../../x"), "workflow '../../x' in folder 'a' would be outside Workflows/"),
    (lambda: paths.shared_folder(UserSettings("a", shared_workflows_sub_directory_override="..")), f"'..' cannot be the name of a shared folder, {LEADS_OUT}"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "message"), MESSAGES, ids=[c[1][:40] for c in MESSAGES])
def test_a_refusal_repeats_the_name_and_says_of_what(build, message):
    with pytest.raises(ConfigError) as caught:
        build()
    assert str(caught.value) == message
