"""Names that no code of the house calls, and that stay: the specification gives them to scripts and front ends."""

from __future__ import annotations

import importlib

import pytest

FACES = {  # module, name (with its class) -> where it is promised
    ("Middleware.api.workflow_gateway", "handle_user_prompt"): "frontend-api.md 9",
    ("Middleware.api.api_helpers", "build_response_json"): "frontend-api.md 1",
    ("Middleware.api.api_helpers", "sse_format"): "frontend-api.md 1",
    ("Middleware.llmapis.llm_api", "LlmApiService.get_response_from_llm"): "backends.md 1",
    ("Middleware.llmapis.llm_api", "LlmApiService.is_busy"): "backends.md 1",
    ("Middleware.llmapis.llm_api", "LlmApiService.close"): "backends.md 1",
    ("Middleware.llmapis.handlers.base.base_llm_api_handler", "LlmApiHandler.handle_streaming"): "backends.md 1",
    ("Middleware.llmapis.handlers.base.base_llm_api_handler", "LlmApiHandler._prepare_payload"): "backends.md 1",
    ("Middleware.llmapis.handlers.base.base_llm_api_handler", "LlmApiHandler._process_stream_data"): "backends.md 1",
    ("Middleware.llmapis.response_parser", "LLMResponseParser.parse_chunk"): "backends.md 12",
    ("Middleware.llmapis.response_parser", "LLMResponseParser.has_thinking_tags"): "backends.md 12",
    ("Middleware.services.cancellation_service", "CancellationService.get_all_cancelled_requests"): "frontend-api.md 13",
    ("Middleware.services.cancellation_service", "CancellationService.unregister_abort_callbacks"): "frontend-api.md 13",
    ("Middleware.utilities.config_utils", "get_config_path"): "tools.md 8.4",
    ("Middleware.utilities.config_utils", "get_user_config"): "tools.md 8.4",
    ("Middleware.utilities.config_utils", "get_default_tool_prompt_path"): "tools.md 8.4",
    ("Middleware.utilities.text_utils", "return_brackets_in_string"): "tools.md 8.4",
    ("Middleware.utilities.script_library", "estimate_tokens"): "docs/nodes/PythonModule.md",
    ("Middleware.utilities.script_library", "estimate_tokens_of_messages"): "docs/nodes/PythonModule.md",
    ("Middleware.utilities.script_library", "last_messages"): "docs/nodes/PythonModule.md",
    ("Middleware.utilities.script_library", "last_user_message"): "docs/nodes/PythonModule.md",
    ("Middleware.utilities.script_library", "system_prompt"): "docs/nodes/PythonModule.md",
    ("Middleware.utilities.script_library", "without_system"): "docs/nodes/PythonModule.md",
    ("Middleware.utilities.script_library", "discussion_id"): "docs/nodes/PythonModule.md",
    ("Middleware.utilities.script_library", "without_discussion_tags"): "docs/nodes/PythonModule.md",
    ("Middleware.utilities.script_library", "text_in_tag"): "docs/nodes/PythonModule.md",
    ("Middleware.utilities.script_library", "text_between"): "docs/nodes/PythonModule.md",
    ("Middleware.utilities.script_library", "remove_thinking_from_text"): "docs/nodes/PythonModule.md",
    ("Middleware.utilities.script_library", "read_config"): "docs/nodes/PythonModule.md",
}  # fmt: skip


@pytest.mark.parametrize(("module", "name"), FACES, ids=lambda value: value)
def test_a_face_is_there(module: str, name: str) -> None:
    """And can be called."""
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    assert callable(found)
