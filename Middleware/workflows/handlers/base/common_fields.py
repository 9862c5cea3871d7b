"""The fields that every node may have, in words, and which of them fit which node: for editors and docs."""

from __future__ import annotations

from collections.abc import Mapping

from Middleware.utilities.streaming_utils import node_descriptions

EVERY_NODE: Mapping[str, str] = {
    "type": "What the node does; `Standard` when it is left out.",
    "title": "The node's name in logs and messages.",
    "agentName": "Used as the node's name when `title` is absent.",
    "displayOnlyComment": "A comment; nothing reads it.",
    "is_responder": "This node answers the user. Without any such node the last one does.",
    "returnToUser": "Older name of `is_responder`, read where that is absent.",
    "jinja2": "Texts of this node are Jinja templates instead of `{placeholders}`. Default: false.",
    "onNodeError": "`continue`: a failure gives `errorText` as the output, and the run goes on. Default: "
    "raise.",
    "errorText": 'Output of a node that failed, with `"onNodeError": "continue"`. Takes variables.',
    "parallelGroup": "Neighbours with the same name here run at the same time.",
    "nMessagesToIncludeInVariable": "Messages in variables such as {chat_user_prompt_n_messages}. Default: "
    "5.",
    "estimatedTokensToIncludeInVariable": "Token budget of the variables that end in `_n_tokens`. Default: "
    "2048.",
    "minMessagesInVariable": "Fewest messages in variables that take messages up to a budget. Default: 5.",
    "maxEstimatedTokensInVariable": "Token budget of these variables. Default: 2048.",
    "addUserAssistantTags": "`User: ` and `Assistant: ` before messages in conversation variables. Default: "
    "false.",
    "includeToolCallsInConversation": "Tool calls and results stand in conversation variables. Default: "
    "false.",
    "useGroupChatTimestampLogic": "The answer begins with the speaker that was asked for. Default: false.",
}
"""Field -> sentence. What fits any type; the keys of cleaning rules come beside it (`every_node`)."""

MODEL_NODES: Mapping[str, str] = {
    "endpointName": "File in `Endpoints/` of the model. May hold workflow variables and {agent1Input}.",
    "preset": "Preset with the samplers; absent: the endpoint's own `presetSamplers`.",
    "presetName": "Read where `preset` is absent.",
    "maxResponseSizeInTokens": "Limit of the answer in tokens. Default: 400.",
    "maxContextTokenSize": "Accepted; the endpoint's own value counts.",
    "systemPrompt": "System message. Takes variables.",
    "prompt": "The user turn. Takes variables. Empty: the conversation is sent instead.",
    "lastMessagesToSendInsteadOfPrompt": "How many messages are sent when `prompt` is empty. Default: 5. "
    "While tools are being called, the question, the calls and their results are all sent.",
    "lastMessagesToSendInsteadOfPromptMaxTokenSize": "Ceiling in tokens on those messages.",
    "clampPromptToContextWindow": "Leave out whole oldest messages that do not fit the endpoint's window.",
    "acceptImages": "Send the images of the messages. Default: false.",
    "maxImagesToSend": "Newest images that are sent; 0: all. Default: 0.",
    "allowTools": "Send the client's tools; on the node that answers. Default: false.",
    "appendNativeToolExchange": "Put the newest tool call and its results behind `prompt`. Default: false.",
    "structuredOutputFile": "JSON Schema in `StructuredOutputs/` that the answer must fit.",
    "clientParameters": "What of the request's own parameters this node takes, e.g. `max_tokens`. Default: "
    "none.",
    "useRelativeTimestamps": "As `[Sent 5 minutes ago]` instead of date and time. Default: false.",
    "lowercaseToolCallFunctionNames": "Function names of tool calls in lower case. Default: false.",
    "injectLivenessToolCall": "Add the user's `livenessToolCall` to an answer without tool calls. Default: "
    "false.",
    "mergeConsecutiveAssistantMessages": "Neighbouring assistant messages become one. Default: false.",
    "mergeConsecutiveAssistantMessagesDelimiter": "What stands between them. Default: a line end.",
    "insertUserTurnBetweenAssistantMessages": "A user message between neighbouring assistant ones. Default: "
    "false.",
    "insertedUserTurnText": "Its text. Default: `Continue.`",
    "addUserTurnTemplate": "Backends that take one text: wrap the prompt as a user turn. Default: false.",
    "addOpenEndedAssistantTurnTemplate": "Backends that take one text: put the assistant prefix before the "
    "prompt.",
    "forceGenerationPromptIfEndpointAllows": "Backends that take one text: end with the assistant prefix.",
    "blockGenerationPrompt": "Backends that take one text: never end with the assistant prefix.",
}
"""What fits a node that calls a model (`model_nodes`)."""

CHILD_NODES: Mapping[str, str] = {
    "scoped_variables": "Inputs of the child: item 1 is {agent1Input} there, and so on. Takes variables.",
    "workflowUserFolderOverride": "Folder below `Workflows/` of the child; absent: your own.",
    "firstNodeSystemPromptOverride": "System prompt of the child's first node that has prompts. Takes "
    "variables.",
    "systemPromptOverride": "As `firstNodeSystemPromptOverride`, read where that is absent.",
    "firstNodePromptOverride": "Prompt of the child's first node that has prompts. Takes variables.",
    "promptOverride": "As `firstNodePromptOverride`, read where that is absent.",
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
