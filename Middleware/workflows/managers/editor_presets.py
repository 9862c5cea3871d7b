"""Names of samplers that single backends have, in words, for editors: presets hold native names."""

from __future__ import annotations

from collections.abc import Mapping

NATIVE_SAMPLERS: Mapping[str, str] = {
    "rep_pen": "KoboldCpp: punishes tokens that came before; 1: off.",
    "rep_pen_range": "KoboldCpp: how many of the last tokens count as repeated.",
    "rep_pen_slope": "KoboldCpp: how the penalty falls with distance.",
    "repetition_penalty": "vLLM and text-generation-webui: punishes tokens that came before; 1: off.",
    "typical": "KoboldCpp: locally typical sampling; 1: off.",
    "tfs": "KoboldCpp: tail free sampling; 1: off.",
    "top_a": "KoboldCpp and text-generation-webui: leave out tokens by the square of the likeliest one.",
    "sampler_order": "KoboldCpp: order of the samplers, as numbers.",
    "sampler_seed": "KoboldCpp: start of the random numbers.",
    "num_keep": "Ollama: so many tokens of the beginning stay when the context is full.",
    "num_predict": "Ollama: limit of the answer; a node's `maxResponseSizeInTokens` goes before it.",
    "num_ctx": "Ollama: context window; the endpoint's `maxContextTokenSize` goes before it.",
    "skip_special_tokens": "text-generation-webui: leave marks of the model out of the text.",
    "custom_token_bans": "text-generation-webui: tokens that never come.",
    "dynamic_temperature": "text-generation-webui: let the temperature move.",
    "reasoning_effort": "OpenAI: how much the model thinks: minimal, low, medium or high.",
    "verbosity": "OpenAI: how long answers are: low, medium or high.",
    "stop_sequences": "Claude: texts that end the answer.",
    "thinking": "Claude: how much the model thinks.",
    "cache_prompt": "llama.cpp: keep the prompt's state for the next request.",
}
