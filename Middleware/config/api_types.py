"""What a kind of backend speaks: the keys of API type files and of sampler blocks.

API types stay mappings: what a key does is known by the dialect that reads it (`llmapis`).
"""

from __future__ import annotations

from Middleware.config.keys import (
    ANY,
    FLAG,
    OBJECT,
    TEXT,
    TEXTS_BY_NAME,
    Key,
    object_of,
    one_of,
)
from Middleware.config.validation import state_file

# --------------------------------------------------------------------------
# Samplers under their canonical names; `samplerFieldMap` says what a backend calls them.


_NUMBER = Key(should={"type": ["number", "string"]})

SAMPLER_KEYS = {
    "temperature": _NUMBER("How freely the model chooses; 0: always the likeliest token."),
    "dynatemp_range": _NUMBER("How far the temperature may move around its value."),
    "dynatemp_exponent": _NUMBER("How the temperature moves within that range."),
    "top_k": _NUMBER("Choose among so many likeliest tokens; 0: all."),
    "top_p": _NUMBER("Choose among the likeliest tokens that together have this probability."),
    "min_p": _NUMBER("Leave out tokens less likely than this part of the likeliest one."),
    "top_n_sigma": _NUMBER("Leave out tokens that are so many standard deviations below the likeliest one."),
    "typical_p": _NUMBER("Locally typical sampling; 1: off."),
    "repeat_penalty": _NUMBER("Punishes tokens that came before; 1: off."),
    "repeat_last_n": _NUMBER("How many of the last tokens count as repeated."),
    "presence_penalty": _NUMBER("Punishes tokens that were used at all."),
    "frequency_penalty": _NUMBER("Punishes tokens by how often they were used."),
    "dry_multiplier": _NUMBER("Strength of the DRY repetition penalty; 0: off."),
    "dry_base": _NUMBER("How the DRY penalty grows with the length of a repetition."),
    "dry_allowed_length": _NUMBER("Repetitions up to this length cost nothing."),
    "dry_penalty_last_n": _NUMBER("How many of the last tokens DRY looks at."),
    "xtc_probability": _NUMBER("How often XTC leaves out the likeliest tokens."),
    "xtc_threshold": _NUMBER("How likely a token must be to be left out by XTC."),
    "mirostat": _NUMBER("Mirostat version: 0 off, 1 or 2."),
    "mirostat_tau": _NUMBER("Surprise that Mirostat aims at."),
    "mirostat_eta": _NUMBER("How fast Mirostat learns."),
    "seed": _NUMBER("Start of the random numbers; the same seed gives the same answer."),
    "n_probs": _NUMBER("So many likeliest tokens are told with each token."),
    "min_keep": _NUMBER("Samplers leave at least so many tokens."),
    "dry_sequence_breakers": ANY("Texts that end a repetition for DRY."),
    "stop": ANY("Texts that end the answer."),
    "samplers": ANY("Order of the samplers."),
    "logit_bias": ANY("Token -> how much likelier it is made."),
    "ignore_eos": ANY("Go on behind the model's end mark."),
    "grammar": ANY("GBNF grammar that the answer must fit."),
    "json_schema": ANY("JSON Schema that the answer must fit."),
    "thinkingMode": ANY("off, on, low, medium or high."),
    "chat_template_kwargs": OBJECT("Values for the model's chat template.", open=True),
}
"""Keys of `presetSamplers`. A preset file holds the backend's own names instead."""

state_file(
    "preset",
    "Preset",
    "Presets/<presetType>/[<folder>/]<name>.json: samplers under the names of the backend; they go into the "
    "request as they are.",
    {},
    open=True,
)

# --------------------------------------------------------------------------

STRUCTURED_OUTPUT_STYLES = ("openaiJsonSchema", "raw", "anthropicJsonSchema")
THINKING_KEYS = {
    "mode": one_of("bool", "effort", "boolOrEffort", "unsupported")("Kind of value.", type="string").lenient,
    "field": TEXT("Payload key."),
    "location": one_of("top", "chat_template_kwargs")("Where the key stands.", default="top").lenient,
}
STRUCTURED_OUTPUT_KEYS = {
    "field": TEXT("Payload key; dots nest.", minLength=1).lenient,
    "style": one_of(*STRUCTURED_OUTPUT_STYLES)("Shape of its value.").lenient,
    "strict": FLAG("Ask for strict following.", default=True),
}
API_TYPE_KEYS = {
    "type": TEXT(
        "The handler that speaks it: openAIChatCompletion, openAIApiChatImageSpecific, "
        "claudeMessages, ollamaApiChat, ollamaApiChatImageSpecific, openAIV1Completion, "
        "koboldCppGenerate, koboldCppGenerateImageSpecific, ollamaApiGenerate, openAIEmbeddings, "
        "ollamaEmbeddings, builtInDemo.",
        required=True,
        minLength=1,
    ),
    "nameForDisplayOnly": TEXT("A comment; name in log lines."),
    "presetType": TEXT("Folder below Presets/."),
    "truncateLengthPropertyName": TEXT("Payload key that gets the context size; empty: none."),
    "maxNewTokensPropertyName": TEXT("Payload key that gets the length limit; empty: none."),
    "streamPropertyName": TEXT("Payload key that gets the stream flag; empty: none."),
    "samplerFieldMap": TEXTS_BY_NAME("Canonical sampler name -> name of this backend.", default={}),
    "backendStream": one_of("asRequested", "always")(
        "Default for endpoints of this type. `always`: the backend streams also when the client wants a "
        "whole answer."
    ),
    "requestStreamUsage": FLAG(
        "Default for endpoints of this type: ask the backend for token counts at the end of a stream."
        " false: never, also when the client wants them.",
        default=None,
    ),
    "supportsChatTemplateKwargs": FLAG("`chat_template_kwargs` of presetSamplers may be sent."),
    "thinking": object_of(THINKING_KEYS)("How this backend is told to think."),
    "structuredOutput": object_of(STRUCTURED_OUTPUT_KEYS).lenient("How this backend is given a JSON Schema."),
}

state_file("apitype", "API type", "ApiTypes/<name>.json: what a kind of backend speaks.", API_TYPE_KEYS)
