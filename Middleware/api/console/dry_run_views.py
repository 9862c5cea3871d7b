"""POST `dry-run`: a workflow file walked without a model, saved or not, with stubs or with what a run gave.

Source: spec console.md 9.8, workbench.md 1, 10.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from Middleware.api.console.again import Again, can_read
from Middleware.api.console.call_views import run_of
from Middleware.api.console.config_files import config_file
from Middleware.api.console.file_views import checked_bytes, read_held
from Middleware.api.console.run_texts import START, secrets_of
from Middleware.api.console.view_contract import ApiRoute, Ask, ViewRefused
from Middleware.api.requests.chat_messages import check_messages, internal_messages
from Middleware.api.requests.repeats import split_address
from Middleware.common.errors import MiddlewareError, RequestCancelled
from Middleware.common.request_context import ClientQuestion, RequestContext, enter_request
from Middleware.common.secrets import mask_secrets, mask_text, without_quoted_secrets
from Middleware.common.types import JsonObject
from Middleware.config.drafts import draft_snapshot
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.paths import WORKFLOWS
from Middleware.config.users import UserSettings, load_user
from Middleware.config.validation import describe_value
from Middleware.utilities.config_masks import shown_value
from Middleware.utilities.text_utils import estimate_tokens, sentence_of
from Middleware.workflows.checks.dry_run import DryNode, DryRun

HELLO = [{"role": "user", "content": "Hello"}]


def dry_run(ask: Ask) -> JsonObject:
    """`{"nodes": [...], "error"}`: what was walked, and the sentence of the failure that ended the walk, if
    one did. Of a `run` the client's messages are asked, and its outputs stand in place of stubs; `node`:
    409 with the reason where those before this one are not all known.
    """
    fields = ask.fields(
        path=str,
        user=str,
        messages=list | None,
        text=str | None,
        stub=str | None,
        run=str | None,
        node=int | None,
    )
    snapshot = ask.hub.snapshot()
    if fields["user"] not in ask.hub.served_users():
        allowed = ", ".join(ask.hub.served_users())
        raise ViewRefused(400, f"user: found {describe_value(fields['user'])}, allowed: {allowed}")
    messages = check_messages(HELLO if fields["messages"] is None else fields["messages"])
    place = config_file(snapshot.root, fields["path"])
    if fields["text"] is not None:
        ask.require_right("save")
        raw = checked_bytes(snapshot, place.file, fields["text"], read_held(snapshot, place))
        snapshot = draft_snapshot(snapshot, place.file, raw)
    user = load_user(snapshot, fields["user"])
    request = RequestContext("dry-run", user.name, "openaichatcompletion", snapshot=snapshot)
    before = None if fields["run"] is None else _earlier_run(ask, fields, snapshot, place.file)
    given = before.known if before else None
    walk = DryRun(user, request, fields["stub"], given=given, tells_variables=True)
    if before is None:
        question = ClientQuestion(internal_messages(messages, user))
    else:
        question = _question_of(ask, before, user)
    error = _walk_file(walk, place.file, question)
    sent_with = {secret for node in walk.nodes for sent in node.sent for secret in sent.secrets}
    known = sent_with.union(ask.hub.secrets, secrets_of(before.run) if before else ())
    secrets = sorted(filter(None, known), key=len, reverse=True)  # one may begin another
    nodes = [_node_json(node, secrets) for node in walk.nodes]
    return {"nodes": nodes, "error": error and mask_secrets(error, *secrets)}


def _earlier_run(ask: Ask, fields: Mapping[str, Any], snapshot: ConfigSnapshot, file: str) -> Again:
    """The run whose texts are filled in. Raises ViewRefused, 409 with the reason where they cannot be."""
    if fields["messages"] is not None:
        raise ViewRefused(400, "give messages or a run, not both")
    run = run_of(ask, fields["run"])
    before = Again(run, snapshot, fields["node"], can_read(ask, run))
    why = before.why_not_read if fields["node"] is None else before.why_not
    if not why and before.file != file:
        why = f"{file} did not answer that run."
    if why:
        raise ViewRefused(409, why)
    return before


def _question_of(ask: Ask, before: Again, user: UserSettings) -> ClientQuestion:
    """What the client of the run asked. Raises ClientRequestError."""
    path, _ = split_address(before.run.path)
    return ask.hub.question_of(path, before.run.asked, user)


def _walk_file(walk: DryRun, file: str, question: ClientQuestion) -> str | None:
    """Walk the file; the sentence of the failure that ended the walk, None: it went to its end."""
    folder, _, name = file.removeprefix(f"{WORKFLOWS}/").removesuffix(".json").rpartition("/")
    with enter_request(walk.request):
        try:
            for _ in walk.open_run(name, question, folder=folder):
                continue
        except RequestCancelled:
            raise
        except MiddlewareError as error:
            return without_quoted_secrets(sentence_of(str(error)))
    return None


def _node_json(node: DryNode, secrets: Iterable[str]) -> JsonObject:
    """Without these secrets. A variable is told by its beginning and its length."""
    shown: JsonObject = _mask_values(
        {
            "workflow": node.workflow,
            "number": node.number,
            "type": node.type,
            "title": node.title,
            "depth": node.depth,
            "answers": node.answers,
            "fields": shown_value(node.fields),
            "variables": node.variables,
            "sent": [
                {"url": sent.url, "headers": dict(sent.headers), "body": sent.body} for sent in node.sent
            ],
            "notes": node.notes,
            "output": node.output,
        },
        secrets,
    )
    sizes = {name: _variable_json(value) for name, value in shown["variables"].items()}
    return {**shown, "variables": sizes}


def _variable_json(value: str) -> JsonObject:
    return {"start": value[:START], "chars": len(value), "tokens": estimate_tokens(value)}


def _mask_values(value: Any, secrets: Iterable[str]) -> Any:
    """A copy in which no text holds a secret."""
    if isinstance(value, str):
        said = mask_secrets(value, *secrets)
        return mask_text(said) or said
    if isinstance(value, dict):
        return {key: _mask_values(item, secrets) for key, item in value.items()}
    return [_mask_values(item, secrets) for item in value] if isinstance(value, list | tuple) else value


DRY_RUN_ROUTES = (ApiRoute("POST", "dry-run", "act", dry_run),)
