"""What each field of a node takes, what holds without it, and which of them a node needs.

A line of the tables: the field; `!` it must be there, `?` it should, `#` it is made a number before the node
runs, `+` editors fill in what holds without it; the sorts of values that it takes, or its words; its bounds;
what holds without it.
"""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from Middleware.workflows.handlers.node_types import (
    COMMON_KEYS,
    MEMORY_KEYS,
    NODES,
    common_schema,
    node_schema,
    number_defaults,
)

FIELDS = {
    "any node": r"""
        type string = 'Standard'
        title string
        agentName string
        displayOnlyComment any
        is_responder boolean = False
        returnToUser boolean = False
        jinja2 boolean = False
        onNodeError raise|continue = 'raise'
        errorText string
        parallelGroup string
        nMessagesToIncludeInVariable# integer|number|string|boolean >= 0 = 5
        estimatedTokensToIncludeInVariable# integer|number|string|boolean >= 0 = 2048
        minMessagesInVariable# integer|number|string|boolean >= 0 = 5
        maxEstimatedTokensInVariable# integer|number|string|boolean >= 0 = 2048
        addUserAssistantTags boolean = False
        includeToolCallsInConversation boolean = False
        useGroupChatTimestampLogic boolean = False
        endpointName string
        preset string
        presetName string
        maxResponseSizeInTokens# integer|number|string|boolean >= 1 = 400
        maxContextTokenSize# integer|number|string|boolean >= 0 = 4096
        systemPrompt string
        prompt string
        lastMessagesToSendInsteadOfPrompt# integer|number|string|boolean >= 0 = 5
        lastMessagesToSendInsteadOfPromptMaxTokenSize# integer|number|string >= 0
        steadyWindow boolean|integer|string >= 8 <= 1000
        latePrompt string
        latePromptPlace string = 'after'
        clampPromptToContextWindow boolean|string
        acceptImages boolean = False
        maxImagesToSend# integer|number|string|boolean >= 0 = 0
        allowTools boolean = False
        appendNativeToolExchange boolean = False
        structuredOutputFile string
        clientParameters array
        useRelativeTimestamps boolean = False
        lowercaseToolCallFunctionNames boolean = False
        injectLivenessToolCall boolean = False
        mergeConsecutiveAssistantMessages boolean = False
        mergeConsecutiveAssistantMessagesDelimiter string = '\n'
        insertUserTurnBetweenAssistantMessages boolean = False
        insertedUserTurnText string = 'Continue.'
        addUserTurnTemplate boolean = False
        addOpenEndedAssistantTurnTemplate boolean = False
        forceGenerationPromptIfEndpointAllows boolean = False
        blockGenerationPrompt boolean = False
        scoped_variables array
        workflowUserFolderOverride string
        firstNodeSystemPromptOverride string
        systemPromptOverride string
        firstNodePromptOverride string
        promptOverride string
    """,
    "memory settings": r"""
        useVectorForQualityMemory boolean = False
        lookbackStartTurn integer|number|string >= 0 = 3
        wilmerContextEstimationLevel string
        chunkEstimatedTokenSize integer|number|string >= 1 = 1000
        maxMessagesBetweenChunks integer|number|string >= 1 = 5
        fileMemoryWorkflowName string
        systemPrompt string
        prompt string
        endpointName string
        preset string
        maxResponseSizeInTokens integer|number|string >= 0 = 400
        condensationLockTimeoutSeconds any >= 0 = 600
        condenseMemories boolean = False
        memoriesBeforeCondensation integer|number|string >= 1 = 0
        memoryCondensationBuffer integer|number|string >= 0 = 0
        condenseMemoriesSystemPrompt string
        condenseMemoriesPrompt string
        condenseMemoriesEndpointName string
        condenseMemoriesPreset string
        condenseMemoriesMaxResponseSizeInTokens integer|number|string >= 0 = 500
        vectorMemoryWorkflowName string
        vectorMemoryEndpointName string
        vectorMemoryPreset string
        vectorMemoryMaxResponseSizeInTokens integer|number|string >= 0 = 1024
        vectorMemoryChunkEstimatedTokenSize integer|number|string >= 1 = 1000
        vectorMemoryMaxMessagesBetweenChunks integer|number|string >= 1 = 5
        vectorMemoryIndexTopics boolean = False
        embeddingEndpointName string
        embeddingBackfillBatchSize integer|number|string >= 0 = 20
        useStateDocument boolean = False
        stateDocumentWorkflowName string
        stateDocumentMinRetentionRatio integer|number|string >= 0 = 0.5
    """,
    "Agent": r"""
        endpointName! string letters >= 1
        agentTools array
        maxSteps# integer|number|string|boolean >= 1 <= 100 = 8
        maxToolCalls# integer|number|string|boolean >= 1 <= 1000 = 32
        maxParallelToolCalls# integer|number|string|boolean >= 1 <= 16 = 4
        toolTimeout# integer|number|string|boolean > 0 = 30.0
        maxToolResultTokens# integer|number|string|boolean >= 1 = 2000
        onToolError tell|raise = 'tell'
        toolCalling auto|native|json = 'auto'
        stepText answer|thinking = 'answer'
        totalTimeout# integer|number|string|boolean > 0
        maxResponseSizeInTokens# integer|number|string|boolean >= 1 = 2048
    """,
    "ArithmeticProcessor": r"""
        expression? string letters >= 1
    """,
    "Candidates": r"""
        endpointName! string letters >= 1
        readAhead off|start|end = 'off'
        candidates# any = 3
        choose judge|vote|merge|all = 'judge'
        judgeEndpointName string
        judgePreset string
        judgePrompt string
        mergePrompt string
        voteOn string = 'last_line'
        allowTools False = False
    """,
    "GetCurrentSummaryFromFile": "",
    "ChatSummaryMemoryGatheringTool": r"""
        maxTurnsToPull!# integer|number|string|boolean
    """,
    "FullChatSummary": r"""
        isManualConfig boolean = False
    """,
    "WriteCurrentSummaryToFileAndReturnIt": r"""
        input! string
    """,
    "chatSummarySummarizer": r"""
        endpointName! string letters >= 1
        loopIfMemoriesExceed# integer|number|string|boolean = 3
        minMemoriesPerSummary# integer|number|string|boolean = 3
    """,
    "Conditional": r"""
        condition? string letters >= 1
    """,
    "ContextCompactor": r"""
        readOnly boolean = False
    """,
    "ConversationChunkProcessor": r"""
        id! string
        workflowName! string letters >= 1
        chunkSize integer >= 1 = 10
        lookbackMessages integer >= 0 = 4
        cursorDirectory! string letters >= 1
        returnFile string
    """,
    "CurlCommand": r"""
        blockPrivateAddresses+ boolean = False
        allowedHosts array|null items >= 1
        onError+ raise|return = 'raise'
        maxResponseBytes number|string = 10485760
        args! array
        timeout number|string > 0 = 30
        outputFormat+ stdout|stdout+stderr|full = 'stdout'
        proxy string|null
        blockOptionInjection+ boolean = False
        allowSchemeInjection+ boolean = False
    """,
    "GetCustomFile": r"""
        filepath? string letters >= 1
        headCount integer >= 1
        tailCount integer >= 1
        chunkDelimiter string = '\n'
        delimiter string
        customReturnDelimiter string
    """,
    "SaveCustomFile": r"""
        filepath? string letters >= 1
        mode overwrite|append|replace|remove|trim = 'overwrite'
        content string
        find string letters >= 1
    """,
    "DelimitedChunker": r"""
        content? string
        delimiter? string letters >= 1
        mode? head|tail
        count? integer >= 1
    """,
    "ImageProcessor": r"""
        endpointName! string letters >= 1
        addAsUserMessage boolean = False
        message string
        saveVisionResponsesToDiscussionId boolean = False
        visionScanMessageLimit# integer|number|string|boolean >= 0 = 20
    """,
    "JsonExtractor": r"""
        jsonToExtractFrom? string letters >= 1
        fieldToExtract? string letters >= 1
    """,
    "ConversationalKeywordSearchPerformerTool": r"""
        keywords! string
        searchTarget CurrentConversation|RecentMemories = 'CurrentConversation'
        lookbackStartTurn# integer|number|string|boolean = 0
    """,
    "MemoryKeywordSearchPerformerTool": r"""
        keywords! string
        searchTarget CurrentConversation|RecentMemories = 'CurrentConversation'
        lookbackStartTurn# integer|number|string|boolean = 0
    """,
    "MCPToolCall": r"""
        server! string letters >= 1
        tool! string letters >= 1
        arguments object
        timeout+ number|string > 0 = 30
        onError+ raise|return = 'raise'
    """,
    "OfflineResearcherApiQuickSearch": r"""
        promptToSearch! string|number|boolean|array|object
        maxIterations integer
        timeoutSeconds number|string > 0 = 240
        includeSources boolean = False
    """,
    "OfflineResearcherApiDeepResearch": r"""
        promptToSearch! string|number|boolean|array|object
        maxIterations integer
        timeoutSeconds number|string > 0 = 600
        includeSources boolean = False
    """,
    "OfflineWikiApiFullArticle": r"""
        promptToSearch! string|number|boolean|array|object
    """,
    "OfflineWikiApiBestFullArticle": r"""
        promptToSearch! string|number|boolean|array|object
    """,
    "OfflineWikiApiTopNFullArticles": r"""
        promptToSearch! string|number|boolean|array|object
        percentile# integer|number|string|boolean = 0.5
        num_results# integer|number|string|boolean = 10
        top_n_articles# integer|number|string|boolean = 3
    """,
    "OfflineWikiApiPartialArticle": r"""
        promptToSearch! string|number|boolean|array|object
        percentile# integer|number|string|boolean = 0.5
        num_results# integer|number|string|boolean = 1
        top_n_articles# integer|number|string|boolean = 3
    """,
    "PythonModule": r"""
        module_path! string letters >= 1
        args array
        kwargs object
        argTypes text|native = 'text'
        timeoutSeconds number <= 2000000 > 0
    """,
    "QualityMemory": "",
    "RecentMemory": "",
    "ConversationMemory": "",
    "GetCurrentMemoryFromFile": r"""
        customDelimiter string = '--ChunkBreak--'
    """,
    "RecentMemorySummarizerTool": r"""
        maxSummaryChunksFromFile!# integer|number|string|boolean
        maxTurnsToPull!# integer|number|string|boolean
        lookbackStart# integer|number|string|boolean = 0
        customDelimiter string = '--ChunkBreak--'
    """,
    "SlowButQualityRAG": r"""
        ragTarget! string
        ragType! any
        fileMemoryWorkflowName string
    """,
    "Standard": r"""
        endpointName! string letters >= 1
        readAhead off|start|end = 'off'
    """,
    "GetCurrentStateDocument": "",
    "StaticResponse": r"""
        content? string
    """,
    "StringConcatenator": r"""
        strings? array
        delimiter string
    """,
    "CustomWorkflow": r"""
        workflowName! string letters >= 1
    """,
    "ConditionalCustomWorkflow": r"""
        conditionalKey? string
        conditionalWorkflows? object
        UseDefaultContentInsteadOfWorkflow string|null
        routeOverrides object
    """,
    "TagTextExtractor": r"""
        tagToExtractFrom? string letters >= 1
        fieldToExtract? string letters >= 1
        defaultText string
    """,
    "VectorMemorySearch": r"""
        input string
        limit# integer|number|string|boolean >= 1 <= 1000 = 5
        searchMode string = 'keyword'
        embeddingEndpointName string
        semanticQuery string
        bm25Weights array items >= 5
        useRecencyScoring boolean = False
        includeDates boolean = False
        useEntityExpansion boolean = False
    """,
    "WebFetch": r"""
        blockPrivateAddresses+ boolean = False
        allowedHosts array|null items >= 1
        onError+ raise|return = 'raise'
        maxResponseBytes number|string = 10485760
        url! string letters >= 1
        method+ string = 'GET'
        headers any
        body any
        timeout number|string > 0 = 30
        totalTimeout number > 0
        outputFormat+ text|json|full|html-stripped = 'text'
        htmlLayout+ lines|blocks = 'lines'
        proxy string
        allowRedirects+ boolean = True
        verify+ boolean = True
        caBundle string
    """,
    "WorkflowLock": r"""
        workflowLockId! string letters >= 1
        lockedMessage string
    """,
}
MARKS = {"required": "!", "advised": "?", "number": "#", "offered": "+"}
BOUNDS = {
    "minimum": ">=",
    "maximum": "<=",
    "exclusiveMinimum": ">",
    "minLength": "letters >=",
    "minItems": "items >=",
}
NUMBERS = {
    "vectorMemoryMaxResponseSizeInTokens": 1024,
    "vectorMemoryChunkEstimatedTokenSize": 1000,
    "vectorMemoryMaxMessagesBetweenChunks": 5,
    "chunkEstimatedTokenSize": 1000,
    "maxMessagesBetweenChunks": 5,
    "memoryCondensationBuffer": 0,
    "chunksPerMemory": 3,
    "offlineWikiApiPort": None,
    "nMessagesToIncludeInVariable": 5,
    "estimatedTokensToIncludeInVariable": 2048,
    "minMessagesInVariable": 5,
    "maxEstimatedTokensInVariable": 2048,
    "maxResponseSizeInTokens": 400,
    "maxContextTokenSize": 4096,
    "lastMessagesToSendInsteadOfPrompt": 5,
    "lastMessagesToSendInsteadOfPromptMaxTokenSize": None,
    "maxImagesToSend": 0,
    "maxSteps": 8,
    "maxToolCalls": 32,
    "maxParallelToolCalls": 4,
    "toolTimeout": 30.0,
    "maxToolResultTokens": 2000,
    "totalTimeout": None,
    "candidates": 3,
    "maxTurnsToPull": None,
    "loopIfMemoriesExceed": 3,
    "minMemoriesPerSummary": 3,
    "visionScanMessageLimit": 20,
    "lookbackStartTurn": 0,
    "percentile": 0.5,
    "num_results": 10,
    "top_n_articles": 3,
    "maxSummaryChunksFromFile": None,
    "lookbackStart": 0,
    "limit": 5,
}
"""What stands in for a text that is no number; None: the text stays."""
WORDS = """
    additionalProperties allOf anyOf default description else enum examples exclusiveMinimum if items
    maxItems maximum minItems minLength minimum not oneOf pattern properties propertyNames required then
    type x-allowed x-breach x-form x-group
"""
"""All words of the schemas: JSON Schema's, and ours that begin with `x-`."""


def line_of(name, key):
    """A line of the tables."""
    shape = {**key.should, **key.must}
    sort = shape.get("type", "any")
    words = [str(word) for word in shape.get("enum", ())] or ([sort] if isinstance(sort, str) else sort)
    bounds = [f" {sign} {shape[word]}" for word, sign in BOUNDS.items() if word in shape]
    marks = "".join(mark for fact, mark in MARKS.items() if getattr(key, fact, False))
    default = "" if key.default is None else f" = {key.default!r}"
    return f"{name}{marks} {'|'.join(words)}{''.join(bounds)}{default}"


@pytest.mark.parametrize(("name", "lines"), FIELDS.items(), ids=FIELDS)
def test_the_fields_of(name, lines):
    """In the order in which editors show them."""
    keys = {"any node": COMMON_KEYS, "memory settings": MEMORY_KEYS}.get(name)
    keys = NODES[name].KEYS if keys is None else keys
    assert [line_of(*each) for each in keys.items()] == [line.strip() for line in lines.strip().splitlines()]


def test_each_type_has_its_table():
    assert sorted(NODES) == sorted(FIELDS.keys() - {"any node", "memory settings"})


def test_the_fields_that_are_made_numbers():
    assert number_defaults() == NUMBERS


def schemas_of(part):
    """A schema, and all that are in it."""
    if isinstance(part, dict):
        yield part
        places = [
            part.get(word)
            for word in ("items", "additionalProperties", "propertyNames", "if", "then", "else", "not")
        ]
        for word in ("properties", "patternProperties"):
            places += part.get(word, {}).values()
        for word in ("allOf", "anyOf", "oneOf"):
            places += part.get(word, ())
        for place in places:
            yield from schemas_of(place)


@pytest.mark.parametrize("name", [*NODES, "any node"])
def test_a_schema_says_nothing_that_nobody_understands(name):
    """An editor would pass over a word that is none."""
    for part in common_schema() if name == "any node" else node_schema(name):
        Draft202012Validator.check_schema(part)
        words = {word for each in schemas_of(part) for word in each}
        assert sorted(words - set(WORDS.split())) == []
