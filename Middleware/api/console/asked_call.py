"""One call of a run once more: whether it can be made again, and what is to be other in it.

Reads the run and the config files, and calls nothing. Source: spec workbench.md 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from Middleware.api.console.call_views import call_of, node_of
from Middleware.api.console.view_contract import Ask, ViewRefused
from Middleware.api.requests.chat_messages import check_messages
from Middleware.api.requests.repeats import AskedCall
from Middleware.config.users import load_user
from Middleware.llmapis.repeated_call import RepeatedCall, call_in
from Middleware.services.node_trace import CallTrace
from Middleware.services.run_trace import AgainOf, RunTrace

NOT_THE_SAME = (
    "This call can't be made again exactly: its endpoint was changed since, or its form can't be read back."
)


def asked_call(ask: Ask, fields: Mapping[str, Any]) -> AskedCall:
    """What POST `ask` asks for. Raises ViewRefused: 404 for no such call, 409 with the reason where it cannot
    be made again.
    """
    run, node = node_of(ask, fields["run"], fields["node"])
    _, kept = call_of(ask, fields["run"], fields["node"], fields["call"])
    if why := _why_not(run, kept):
        raise ViewRefused(409, why)
    snapshot = ask.hub.snapshot()
    user = load_user(snapshot, run.user)
    call = call_in(kept.body, kept.endpoint)
    if call is None:
        raise ViewRefused(409, NOT_THE_SAME)
    call = replace(call, preset=node.preset, samplers=kept.samplers)
    call = replace(call, max_tokens=kept.max_tokens, stream=bool(kept.stream))
    try:
        if call.body_of(call.service(user, snapshot)) != kept.body:
            raise ViewRefused(409, NOT_THE_SAME)
        call = _edited(call, fields)
        call.arguments(call.service(user, snapshot))
    except ValueError as error:
        raise ViewRefused(422, str(error)) from error
    return AskedCall(AgainOf(run.id, run.wall), run.user, call.endpoint, _newest_text(call), call)


def _why_not(run: RunTrace, call: CallTrace) -> str:
    if run.private:
        return "This run is private, so nothing was kept that could be sent again."
    if call.kind != "model":
        return "This call asked no model."
    if call.body_left_out:
        return "What was sent was too long to be kept whole."
    return "" if run.keeps_text and call.body else "What was sent is not kept."


def _edited(call: RepeatedCall, fields: Mapping[str, Any]) -> RepeatedCall:
    """The call with what is to be other. Of another endpoint or preset the samplers are its own."""
    messages, prompt = fields["messages"], fields["prompt"]
    if messages is not None and prompt is not None:
        raise ViewRefused(400, "give messages or a prompt, not both")
    if messages is not None:
        call = replace(call, messages=check_messages(messages), prompt=None)
    elif prompt is not None:
        call = replace(call, messages=None, prompt=prompt)
    endpoint, preset = fields["endpoint"] or call.endpoint, fields["preset"] or call.preset
    if (endpoint, preset) != (call.endpoint, call.preset):
        call = replace(call, endpoint=endpoint, preset=preset, samplers=None)
    return replace(call, changes=dict(fields["sampler"] or {}))


def _newest_text(call: RepeatedCall) -> str:
    """What the user wrote last, for the row of the run."""
    if call.messages is None:
        return call.prompt or ""
    said = (message.get("content") for message in reversed(call.messages) if message.get("role") == "user")
    text = next(said, "")
    return text if isinstance(text, str) else ""
