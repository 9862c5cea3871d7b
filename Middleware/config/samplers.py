"""Samplers and presets: their keys, and what a node asks for by the name of a preset.

Knows names and files; what a backend calls a sampler is said by its API type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from Middleware.config import paths
from Middleware.config.keys import ANY, OBJECT, Key
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.named_files import find_first
from Middleware.config.users import UserSettings
from Middleware.config.validation import state_file

# --------------------------------------------------------------------------
# Samplers under their canonical names; `samplerFieldMap` says what a backend calls them.


_NUMBER = Key(should={"type": ["number", "string"]})

SAMPLER_KEYS = {
    "temperature": _NUMBER(
        "How creative the answers are: how freely the model chooses; 0: always the likeliest token."
    ),
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
# What a preset says, found by its name.


@dataclass(frozen=True, slots=True)
class Samplers:
    """What a preset says. `canonical`: `block` holds canonical names, to be translated; else native ones.

    `append`: the file of `appendPresetName`, native names, merged on top of the result; None: there is none.
    """

    block: Mapping[str, Any]
    canonical: bool
    append: Mapping[str, Any] | None = None


class HasSamplers(Protocol):
    """`EndpointConfig`, as far as its samplers go."""

    @property
    def file(self) -> str: ...

    @property
    def preset_type(self) -> str: ...

    @property
    def preset_samplers(self) -> Mapping[str, Any] | None: ...

    @property
    def append_preset_name(self) -> str: ...


def load_samplers(
    snapshot: ConfigSnapshot, user: UserSettings, endpoint: HasSamplers, preset_name: str | None
) -> Samplers:
    """The samplers that a node asks for by preset name. Raises ConfigMissing, ConfigError. Source:
    backends.md 4.

    An endpoint of that name with `presetSamplers` comes first, then the preset files. Without a name: the
    endpoint's own `presetSamplers`, else none.
    """
    extra = None
    if endpoint.append_preset_name:
        with snapshot.spelling.named_at(endpoint.file, "/appendPresetName"):
            extra = snapshot.read(_preset_file(snapshot, user, endpoint, endpoint.append_preset_name))
    if not preset_name:
        return Samplers(endpoint.preset_samplers or {}, canonical=True, append=extra)
    embedded = embedded_samplers(snapshot, user, preset_name)
    if embedded:
        return Samplers(embedded, canonical=True, append=extra)
    block = snapshot.read(_preset_file(snapshot, user, endpoint, preset_name))
    return Samplers(block, canonical=False, append=extra)


def embedded_samplers(
    snapshot: ConfigSnapshot, user: UserSettings, preset_name: str
) -> Mapping[str, Any] | None:
    """`presetSamplers` of the endpoint that has exactly the preset's name; None: there is none."""
    if not paths.is_flat_name(preset_name):
        return None
    file = next(filter(snapshot.exists, paths.endpoint_files(user, preset_name)), None)
    if file is None:
        return None
    samplers: Mapping[str, Any] | None = snapshot.read(file).get("presetSamplers")
    return samplers


def _preset_file(snapshot: ConfigSnapshot, user: UserSettings, endpoint: HasSamplers, name: str) -> str:
    return find_first(snapshot, "preset", name, paths.preset_files(user, endpoint.preset_type, name))
