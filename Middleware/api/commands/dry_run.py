"""`--dry-run NAME` and `--explain NAME#N`: what a workflow would send and write, without a model.

Prints, never serves.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from Middleware.api.command_registry import (
    COMMANDS,
    Command,
    OwnArguments,
    check_config_folder,
    document_of,
    nonempty_text,
)
from Middleware.api.requests.chat_messages import check_messages, internal_messages
from Middleware.api.requests.model_names import parse_model_field
from Middleware.common.errors import ClientRequestError, ConfigError, MiddlewareError, RequestCancelled
from Middleware.common.instance_global_variables import launch_facts
from Middleware.common.request_context import ClientQuestion, RequestContext, enter_request
from Middleware.config.loader import ConfigSnapshot, tree_of
from Middleware.config.paths import DEFAULT_WORKFLOW, shared_workflow_folder
from Middleware.config.users import UserSettings, load_user, pointer_user
from Middleware.config.workflows import workflow_exists
from Middleware.workflows.checks.dry_run import DryNode, DryRun

HELLO = [{"role": "user", "content": "Hello"}]


@COMMANDS.register("dry_run", "explain")
class WalkAWorkflow(Command):
    """Walks a workflow without a model."""

    def add_arguments(self, parser: OwnArguments) -> None:
        parser.add_argument(
            "--dry-run",
            type=nonempty_text,
            metavar="NAME",
            help="Walk through a workflow without calling any model, and show what it would send.",
        )
        parser.add_argument(
            "--explain",
            type=nonempty_text,
            metavar="NAME#N",
            help="Show the request that node N of a workflow would send to its model. "
            "Without #N, show that of the first node that calls a model.",
        )
        parser.add_argument(
            "--messages",
            type=nonempty_text,
            metavar="FILE",
            help="Use the conversation in this JSON file for --dry-run, --explain or --reuse.",
        )
        parser.add_argument(
            "--stub-output",
            metavar="TEXT",
            help="Use this text as the answer of every model in --dry-run.",
        )

    def run(self, arguments: Namespace) -> int:
        """Exit status 0; 1 when a node fails or there is no such node; 2 for a usage error."""
        facts = launch_facts()
        check_config_folder(facts)
        if len(facts.users) > 1:
            print("--dry-run and --explain work for one user: give --User once", file=sys.stderr)
            return 2
        try:
            body = read_request_body(arguments.messages)
        except MiddlewareError as error:
            print(f"--messages: {error}", file=sys.stderr)
            return 2
        wanted = arguments.explain or arguments.dry_run
        try:
            return _walk(wanted, body, arguments, explain=bool(arguments.explain))
        except MiddlewareError as error:
            print(f"error: {error}")
            return 1


def read_request_body(file: str | None) -> dict[str, Any]:
    """A request body: from a file that holds one, or only its messages.

    Raises ConfigError for anything else.
    """
    if file is None:
        return {"messages": HELLO}
    document = document_of(file)
    if isinstance(document, list):
        document = {"messages": document}
    if not isinstance(document, dict) or not isinstance(document.get("messages"), list):
        raise ConfigError("found neither a list of messages nor an object with `messages`", file=file)
    try:
        return {**document, "messages": check_messages(document["messages"])}
    except ClientRequestError as error:
        raise ConfigError(str(error), file=file) from error


def _walk(wanted: str, body: dict[str, Any], arguments: Namespace, *, explain: bool) -> int:
    facts = launch_facts()
    snapshot = tree_of(facts.config_directory).snapshot()
    user = load_user(snapshot, facts.users[0] if facts.users else pointer_user(snapshot))
    request = RequestContext("dry-run", user.name, "openaichatcompletion", snapshot=snapshot)
    name, _, number = wanted.partition("#") if explain else (wanted, "", "")
    if explain and "#" in wanted and not number.isdigit():
        print(f"--explain: found {wanted!r}; write the number of a node after the #", file=sys.stderr)
        return 2
    walk = DryRun(user, request, arguments.stub_output)
    workflow, folder = find_workflow(snapshot, user, name)
    question = ClientQuestion(
        internal_messages(body["messages"], user),
        stream=body.get("stream") is True,
        tools=body.get("tools") or None,
        tool_choice=body.get("tool_choice"),
    )
    batches = walk.open_run(workflow, question, folder=folder)
    failure: MiddlewareError | None = None
    with enter_request(request):
        try:
            for _ in batches:
                continue
        except RequestCancelled:
            raise
        except MiddlewareError as error:
            failure = error
    if explain:
        return _print_explanation(walk.nodes, name, int(number) if number else None, failure)
    _print_all(walk.nodes)
    if failure is not None:
        print(f"error: {failure}")
    return 1 if failure is not None else 0


def find_workflow(snapshot: ConfigSnapshot, user: UserSettings, name: str) -> tuple[str, str | None]:
    """Name and folder: a workflow of the user, else a shared one by a name that the model field takes."""
    if ":" in name or not workflow_exists(snapshot, user, name):
        _, picked = parse_model_field(name, snapshot)
        if picked:
            return DEFAULT_WORKFLOW, shared_workflow_folder(user, picked)
    return name, None


def _print_all(nodes: list[DryNode]) -> None:
    workflow = None
    for node in nodes:
        if node.workflow != workflow:
            workflow = node.workflow
            print(f"{'    ' * node.depth}{workflow}")
        print("\n".join(node.lines()))


def _print_explanation(
    nodes: list[DryNode], name: str, number: int | None, failure: MiddlewareError | None
) -> int:
    """Print what one node sends: the one with that number, or the first that calls a model."""
    own = [node for node in nodes if node.depth == 0 and node.number == number]
    found = own[:1] if number is not None else [node for node in nodes if node.sent][:1]
    if not found or not found[0].sent:
        which = f"node {number}" if number is not None else "node"
        print(f"error: {failure or f'{name} has no {which} that calls a model in this dry run'}")
        return 1
    print("\n\n".join(sent.text() for sent in found[0].sent))
    return 0
