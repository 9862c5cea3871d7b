"""The fields that every node may have, in words, and which of them fit which node: for editors and docs."""

from __future__ import annotations

from collections.abc import Mapping

from Middleware.utilities.streaming_utils import node_descriptions

EVERY_NODE: Mapping[str, str] = {
    "type": "What the node does. If it is left out, the type is `Standard`.",
    "title": "The node's name in logs and messages.",
    "agentName": "Used as the node's name when `title` is absent.",
    "displayOnlyComment": "A comment, which has no effect.",
    "is_responder": "This node answers the user. If no node has this, the last one does.",
    "returnToUser": "Older name of `is_responder`, used where that is absent.",
    "jinja2": "Texts of this node are Jinja templates instead of `{placeholders}`. Default: false.",
    "onNodeError": "With `continue`, a failed node outputs `errorText` and the run continues. Default: "
    "raise.",
    "errorText": 'The output of a failed node, with `"onNodeError": "continue"`. Takes variables.',
    "parallelGroup": "Neighbouring nodes with the same name here run at the same time.",
    "nMessagesToIncludeInVariable": "How many messages are in variables such as "
    "{chat_user_prompt_n_messages}. Default: 5.",
    "estimatedTokensToIncludeInVariable": "The token budget of the variables that end in `_n_tokens`. "
    "Default: 2048.",
    "minMessagesInVariable": "The fewest messages in variables that take messages up to a budget. "
    "Default: 5.",
    "maxEstimatedTokensInVariable": "The token budget of these variables. Default: 2048.",
    "addUserAssistantTags": "Put `User: ` and `Assistant: ` before messages in conversation variables. "
    "Default: false.",
    "includeToolCallsInConversation": "Include tool calls and their results in conversation variables. "
    "Default: false.",
    "useGroupChatTimestampLogic": "The answer begins with the speaker that was asked for. Default: false.",
}
"""Field -> sentence. What fits any type; the keys of cleaning rules come beside it (`every_node`)."""

MODEL_NODES: Mapping[str, str] = {
    "endpointName": "The file in `Endpoints/` of the model. The name can contain workflow variables and "
    "{agent1Input}.",
    "preset": "The preset with the samplers. If it is absent, the endpoint's own `presetSamplers` are used.",
    "presetName": "Used where `preset` is absent.",
    "maxResponseSizeInTokens": "The largest answer, in tokens. Default: 400.",
    "maxContextTokenSize": "Accepted, but the endpoint's own value is used.",
    "systemPrompt": "The system message. Takes variables.",
    "prompt": "The user turn. If it is empty, the conversation is sent instead. Takes variables.",
    "lastMessagesToSendInsteadOfPrompt": "How many messages are sent when `prompt` is empty. Default: 5. "
    "While tools are being called, the question, the calls and their results are all sent.",
    "lastMessagesToSendInsteadOfPromptMaxTokenSize": "The most tokens that those messages can have.",
    "clampPromptToContextWindow": "Drop the oldest messages if they do not fit into the endpoint's "
    "context window.",
    "acceptImages": "Send the images of the messages. Default: false.",
    "maxImagesToSend": "How many of the newest images are sent. 0 means all. Default: 0.",
    "allowTools": "Send the client's tools, on the node that answers. Default: false.",
    "appendNativeToolExchange": "Add the newest tool call and its results after `prompt`. Default: false.",
    "structuredOutputFile": "A JSON Schema in `StructuredOutputs/` that the answer must fit.",
    "clientParameters": "Which of the request's own parameters this node uses, such as `max_tokens`. "
    "Default: none.",
    "useRelativeTimestamps": "Show times as `[Sent 5 minutes ago]` instead of date and time. Default: false.",
    "lowercaseToolCallFunctionNames": "Write the function names of tool calls in lower case. Default: false.",
    "injectLivenessToolCall": "Add the user's `livenessToolCall` to an answer without tool calls. Default: "
    "false.",
    "mergeConsecutiveAssistantMessages": "Join neighbouring assistant messages into one. Default: false.",
    "mergeConsecutiveAssistantMessagesDelimiter": "The text between them. Default: a line break.",
    "insertUserTurnBetweenAssistantMessages": "Put a user message between neighbouring assistant "
    "messages. Default: false.",
    "insertedUserTurnText": "Its text. Default: `Continue.`",
    "addUserTurnTemplate": "For backends that take one text: wrap the prompt as a user turn. Default: false.",
    "addOpenEndedAssistantTurnTemplate": "For backends that take one text: put the assistant prefix "
    "before the prompt.",
    "forceGenerationPromptIfEndpointAllows": "For backends that take one text: end with the assistant "
    "prefix.",
    "blockGenerationPrompt": "For backends that take one text: never end with the assistant prefix.",
}
"""What fits a node that calls a model (`model_nodes`)."""

CHILD_NODES: Mapping[str, str] = {
    "scoped_variables": "The inputs of the child workflow: the first item is {agent1Input} there, and so "
    "on. Takes variables.",
    "workflowUserFolderOverride": "The folder below `Workflows/` that the child workflow is in. If it is "
    "absent, it is your own folder.",
    "firstNodeSystemPromptOverride": "Replaces the system prompt of the child's first node that has "
    "prompts. Takes variables.",
    "systemPromptOverride": "The same as `firstNodeSystemPromptOverride`, used where that is absent.",
    "firstNodePromptOverride": "Replaces the prompt of the child's first node that has prompts. Takes "
    "variables.",
    "promptOverride": "The same as `firstNodePromptOverride`, used where that is absent.",
}
"""What fits a node that runs another workflow."""


def every_node() -> dict[str, str]:
    """Field -> sentence. What fits any type."""
    return {**EVERY_NODE, **node_descriptions(of_models=False)}


def model_nodes() -> dict[str, str]:
    """Field -> sentence. What fits a node that calls a model."""
    return {**MODEL_NODES, **node_descriptions(of_models=True)}


def descriptions() -> dict[str, str]:
    """Field -> sentence. All of them."""
    return {**every_node(), **model_nodes(), **CHILD_NODES}
