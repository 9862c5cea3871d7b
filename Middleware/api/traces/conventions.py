"""The words of OpenTelemetry's semantic conventions for generative AI, version 1.41, and our own beside them.

Constants alone, so that another version of the conventions is a change of this file. Source: spec
workbench.md 8; https://github.com/open-telemetry/semantic-conventions-genai
"""

from __future__ import annotations

SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.0"

# Kinds of spans.

SERVER, INTERNAL, CLIENT = "SERVER", "INTERNAL", "CLIENT"

# Operations.

INVOKE_WORKFLOW = "invoke_workflow"
CHAT = "chat"
EMBEDDINGS = "embeddings"
EXECUTE_TOOL = "execute_tool"

# Attributes of the conventions.

OPERATION_NAME = "gen_ai.operation.name"
WORKFLOW_NAME = "gen_ai.workflow.name"
CONVERSATION_ID = "gen_ai.conversation.id"
PROVIDER_NAME = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK_S = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
TOOL_NAME = "gen_ai.tool.name"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
STATUS_CODE = "http.response.status_code"
ERROR_TYPE = "error.type"

# Texts: sent only where `CAPTURE` is `true`.

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"

# Attributes of ours.

FRONT = "headrace.front"
REQUEST_ID = "headrace.request_id"
USER = "headrace.user"
ASKED_MODEL = "headrace.asked_model"
TASK = "headrace.task"
STATE = "headrace.state"
CANCELLED_BY = "headrace.cancelled_by"
AGAIN_OF = "headrace.again_of"
CALLS = "headrace.calls"
TEXTS_LEFT_OUT = "headrace.texts_left_out"
NODE_TYPE = "headrace.node.type"
NODE_NUMBER = "headrace.node.number"
NODE_STATE = "headrace.node.state"
NODE_WORKFLOW = "headrace.node.workflow"
NODE_GROUP = "headrace.node.group"
NODE_ANSWERS = "headrace.node.answers"
NODE_STEPS = "headrace.node.steps"
NODE_LIMIT = "headrace.node.limit"
CALL_KIND = "headrace.call.kind"
CALL_ENDPOINT = "headrace.call.endpoint"
CALL_OUTCOME = "headrace.call.outcome"
CALL_TRIES = "headrace.call.tries"
CALL_BACKUP_OF = "headrace.call.backup_of"
CALL_CHOSEN = "headrace.call.chosen"
MESSAGE = "headrace.message"

# Events.

FIRST_THOUGHT = "first_thought"
FIRST_TEXT = "first_text"
ANSWERED = "answered"
WARNING = "warning"

# Names of samplers at backends -> attributes; numbers alone.

REQUEST_NUMBERS = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "seed": "gen_ai.request.seed",
    "sampler_seed": "gen_ai.request.seed",
}
WHOLE_NUMBERS = frozenset(("gen_ai.request.top_k", "gen_ai.request.seed"))
"""Attributes of `REQUEST_NUMBERS` that are int; the others are float."""

# Who answers, by the end of the host's name, else by the protocol.

PROVIDER_OF_HOST = {
    "api.openai.com": "openai",
    "openai.azure.com": "azure.ai.openai",
    "api.anthropic.com": "anthropic",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral_ai",
    "api.perplexity.ai": "perplexity",
    "api.x.ai": "x_ai",
    "api.cohere.com": "cohere",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "openrouter.ai": "openrouter",
}
PROVIDER_OF_TYPE = {
    "openAIChatCompletion": "openai",
    "openAIApiChatImageSpecific": "openai",
    "openAIV1Completion": "openai",
    "openAIEmbeddings": "openai",
    "ollamaApiChat": "ollama",
    "ollamaApiChatImageSpecific": "ollama",
    "ollamaApiGenerate": "ollama",
    "ollamaEmbeddings": "ollama",
    "koboldCppGenerate": "koboldcpp",
    "koboldCppGenerateImageSpecific": "koboldcpp",
    "claudeMessages": "anthropic",
    "builtInDemo": "headrace",
}
OTHER_PROVIDER = "_OTHER"
