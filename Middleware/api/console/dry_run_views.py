"""POST `dry-run`: a workflow file walked without a model, saved or not. Source: spec console.md 9.8."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from Middleware.api.console.config_masks import shown_value
from Middleware.api.console.config_paths import config_file
from Middleware.api.console.config_saving import checked_bytes, read_held
from Middleware.api.console.text_masks import mask_text, without_quoted_secrets
from Middleware.api.console.view_contract import ApiRoute, Ask, ViewRefused
from Middleware.api.requests.chat_messages import check_messages, internal_messages
from Middleware.common.client_question import ClientQuestion
from Middleware.common.errors import MiddlewareError, RequestCancelled
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.common.types import JsonObject
from Middleware.config.drafts import draft_snapshot
from Middleware.config.paths import WORKFLOWS
from Middleware.config.users import load_user
from Middleware.config.validation import describe_value
from Middleware.utilities.sensitive_logging_utils import mask_secrets
from Middleware.utilities.text_utils import sentence_of
from Middleware.workflows.managers.dry_run import DryNode, DryRun

HELLO = [{"role": "user", "content": "Hello"}]


def dry_run(ask: Ask) -> JsonObject:
    """`{"nodes": [...], "error"}`: what was walked, and the sentence of the failure that ended the walk, if
    one did.
    """
    fields = ask.fields(path=str, user=str, messages=list | None, text=str | None, stub=str | None)
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
    walk = DryRun(user, request, fields["stub"])
    error = _walk_file(walk, place.file, ClientQuestion(internal_messages(messages, user)))
    sent_with = {secret for node in walk.nodes for sent in node.sent for secret in sent.secrets}
    secrets = sorted(sent_with.union(ask.hub.secrets), key=len, reverse=True)  # one may begin another
    nodes = [_mask_values(_node_json(node), secrets) for node in walk.nodes]
    return {"nodes": nodes, "error": error and mask_secrets(error, *secrets)}


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


def _node_json(node: DryNode) -> JsonObject:
    return {
        "workflow": node.workflow,
        "number": node.number,
        "type": node.type,
        "title": node.title,
        "depth": node.depth,
        "answers": node.answers,
        "fields": shown_value(node.fields),
        "sent": [{"url": sent.url, "headers": dict(sent.headers), "body": sent.body} for sent in node.sent],
        "notes": node.notes,
        "output": node.output,
    }


def _mask_values(value: Any, secrets: Iterable[str]) -> Any:
    """A copy in which no text holds a secret."""
    if isinstance(value, str):
        said = mask_secrets(value, *secrets)
        return mask_text(said) or said
    if isinstance(value, dict):
        return {key: _mask_values(item, secrets) for key, item in value.items()}
    return [_mask_values(item, secrets) for item in value] if isinstance(value, list | tuple) else value


DRY_RUN_ROUTES = (ApiRoute("POST", "dry-run", "act", dry_run),)
