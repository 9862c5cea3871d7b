"""`--reuse NAME`: how much of its prompts a model server would read again in each turn, and what to change.

Prints, calls no model, never serves. Source: spec prompt-reuse.md 4.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import PurePosixPath

from Middleware.api.command_registry import (
    COMMANDS,
    Command,
    OwnArguments,
    check_config_folder,
    nonempty_text,
    positive_number,
)
from Middleware.api.commands.dry_run import find_workflow, read_request_body
from Middleware.api.requests.chat_messages import internal_messages
from Middleware.common.errors import MiddlewareError
from Middleware.common.instance_global_variables import launch_facts
from Middleware.common.types import Messages
from Middleware.config.loader import ConfigSnapshot, tree_of
from Middleware.config.users import UserSettings, load_user, pointer_user, user_names
from Middleware.config.workflows import workflow_exists
from Middleware.utilities.text_utils import count_of
from Middleware.workflows.checks.dry_run import NO_CHANGES, ROUTING, NodeChanges
from Middleware.workflows.checks.prompt_reuse import (
    LATE,
    MESSAGE,
    NEWEST,
    PROMPT,
    SYSTEM,
    WINDOW,
    NodeKey,
    NodeReading,
    OpenRun,
    ReuseReport,
    TurnWalk,
    made_conversation,
)
from Middleware.workflows.checks.reuse_advice import AdvisedReuse, advise_on, silent_log
from Middleware.workflows.managers.categorization import open_answer_run

_HEADINGS = ("node", "endpoint", "prompt", "read anew a turn", "leaves the one before at")


@COMMANDS.register("reuse")
class Reuse(Command):
    """Walks a conversation turn by turn without a model."""

    SHARED_FLAGS = ("--messages",)

    def add_arguments(self, parser: OwnArguments) -> None:
        parser.add_argument(
            "--reuse",
            type=nonempty_text,
            metavar="NAME",
            help="Show how much of its prompts a model server would read again in each turn of a chat, and "
            "what to change.",
        )
        parser.add_argument(
            "--turns",
            type=positive_number,
            default=12,
            metavar="N",
            help="Count the last N turns of the conversation in --reuse (12).",
        )
        parser.add_argument(
            "--slots",
            type=positive_number,
            default=1,
            metavar="N",
            help="Let each server hold N prompts in --reuse (1).",
        )
        parser.add_argument(
            "--branch",
            action="store_true",
            help="Take each branch of a workflow's routes once in --reuse.",
        )

    def run(self, arguments: Namespace) -> int:
        """Exit status 0; 1 when a node fails, 2 for a name that does not exist and for other wrong usage."""
        facts = launch_facts()
        check_config_folder(facts)
        if len(facts.users) > 1:
            print("--reuse works for one user: give --User once", file=sys.stderr)
            return 2
        snapshot = tree_of(facts.config_directory).snapshot()
        try:
            user = load_user(snapshot, facts.users[0] if facts.users else pointer_user(snapshot))
            found = _find_run(snapshot, user, arguments.reuse)
            if found is None:
                print(f"--reuse: user {user.name} has no workflow {arguments.reuse!r}", file=sys.stderr)
                return 2
            user, title, open_run = found
            try:
                messages = _conversation(arguments.messages, user)
            except MiddlewareError as error:
                print(f"--messages: {error}", file=sys.stderr)
                return 2
            made = arguments.messages is None
            walk = TurnWalk(snapshot, user, open_run, messages, arguments.turns, arguments.slots, made)
            with silent_log():
                reports = list(_each_branch(walk)) if arguments.branch else [("", advise_on(walk))]
        except MiddlewareError as error:
            print(f"error: {error}")
            return 1
        for number, (branch, advised) in enumerate(reports):
            print("\n" * bool(number) + "\n".join(report_lines(snapshot, title + branch, advised)))
        return 0


def _conversation(file: str | None, user: UserSettings) -> Messages:
    if file is None:
        return made_conversation()
    return internal_messages(read_request_body(file)["messages"], user)


def _find_run(
    snapshot: ConfigSnapshot, user: UserSettings, wanted: str
) -> tuple[UserSettings, str, OpenRun] | None:
    """Whose run it is, how it is called, what begins it: a workflow of the user, a shared one, or whatever
    answers the user of that name; None: there is none.
    """
    workflow, folder = find_workflow(snapshot, user, wanted)
    if workflow_exists(snapshot, user, workflow, folder=folder):
        title = f"workflow {wanted} of {user.name}"
        return user, title, lambda walk, question: walk.open_run(workflow, question, folder=folder)
    if wanted in user_names(snapshot):
        return load_user(snapshot, wanted), f"user {wanted}", open_answer_run
    return None


def _each_branch(walk: TurnWalk) -> Iterator[tuple[str, AdvisedReuse]]:
    """A report for each branch of each node that picks one, those of its child workflows included; without
    such a node the one report.
    """
    first = walk.report()
    waiting: list[tuple[str, NodeChanges, ReuseReport]] = [("", NO_CHANGES, first)]
    seen: set[tuple[NodeKey, str]] = set()
    while waiting:
        title, changes, report = waiting.pop(0)
        taken = False
        for router, branches in report.routers.items():
            for branch in branches:
                if router in changes or (router, branch) in seen:
                    continue
                seen.add((router, branch))
                taken = True
                forced = {**changes, router: {"conditionalKey": branch}}
                name = f"{title}, branch {branch!r} of {_node_name(router)}"
                waiting.append((name, forced, walk.report(forced)))
        if not taken:
            yield title, advise_on(walk, changes)


def _node_name(node: NodeKey) -> str:
    return "the routing" if node == ROUTING else f"node {node[1]} of {PurePosixPath(node[0]).stem}"


# --------------------------------------------------------------------------
# What is printed.


def report_lines(snapshot: ConfigSnapshot, title: str, advised: AdvisedReuse) -> Iterator[str]:
    """A table with a line for each node, what a turn waits for, and advice."""
    report = advised.before
    prompts = count_of(report.slots, "prompt")
    yield f"{title}, {count_of(report.turns, 'turn')}, {prompts} held at each server"
    if not report.turns:
        yield "The conversation contains no message from a user, so there is no turn to look at."
        return
    if not report.nodes:
        yield "No node calls a model."
        return
    yield from _table(report)
    waited, characters = report.of_a_turn(report.waited_tokens), report.of_a_turn(report.waited_chars)
    new = min(waited, report.of_a_turn(report.new_tokens))
    read = f"{waited:,} tokens ({characters:,} characters)"
    yield f"Each turn waits for {read} to be read; {new:,} of them are new."
    if behind := report.of_a_turn(report.read_tokens - report.waited_tokens):
        behind_chars = report.of_a_turn(report.read_chars - report.waited_chars)
        yield f"Another {behind:,} tokens ({behind_chars:,} characters) are read after the answer."
    files = {node[0] for node in report.nodes}
    for advice in advised.advice:
        name = f"node {advice.node[1]}" if len(files) == 1 else _node_name(advice.node)
        yield f"  {name}: {advice.message}  ({advice.place(snapshot)})"
    if advised.after is not None:
        yield f"With these changes: about {advised.after.of_a_turn(advised.after.waited_tokens):,}."


def _table(report: ReuseReport) -> Iterator[str]:
    rows = [_HEADINGS]
    for node, is_ahead in _rows(report):
        name = f"{'  ' * node.depth}{node.key[1]} {node.title}".rstrip() + ", read ahead" * is_ahead
        size = f"{report.of_a_turn(node.tokens):,}"
        share = _read_text(report.of_a_turn(node.new_tokens), node.new_chars, node.chars)
        rows.append((name, node.endpoint, size, share, _leaving_text(node)))
    size = f"{report.of_a_turn(sum(row.tokens for row in report.rows)):,}"
    chars = sum(row.chars for row in report.rows)
    share = _read_text(report.of_a_turn(report.read_tokens), report.read_chars, chars)
    rows.append(("total", "", size, share, ""))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for name, endpoint, size, share, leaves in rows:
        columns = f"{name:{widths[0]}}  {endpoint:{widths[1]}}  {size:>{widths[2]}}  {share:>{widths[3]}}"
        yield f"{columns}  {leaves}".rstrip()


def _rows(report: ReuseReport) -> Iterator[tuple[NodeReading, bool]]:
    """Those of a node stand together. True: what is read ahead for it."""
    for key, node in report.nodes.items():
        yield node, False
        if key in report.ahead:
            yield report.ahead[key], True


def _read_text(tokens: int, new_chars: int, chars: int) -> str:
    return f"{tokens:,} {round(100 * new_chars / max(1, chars)):4d} %"


def _leaving_text(node: NodeReading) -> str:
    found = node.main_leaving()
    if found is None:
        return "nothing was held"
    leaving, count = found
    often = "each turn" if count >= node.calls else f"in {count} of {count_of(node.calls, 'call')}"
    other = ""
    if leaving.other is not None:
        same_file = leaving.other[0] == node.key[0]
        name = f"node {leaving.other[1]}" if same_file else _node_name(leaving.other)
        other = f" ({name} was there before)"
    texts = {
        SYSTEM: f"systemPrompt, character {leaving.number:,}{other}",
        PROMPT: f"prompt, character {leaving.number:,}{other}",
        WINDOW: f"window: message 1 is another one {often}",
        MESSAGE: f"message {leaving.number} of the window",
        LATE: "latePrompt",
        NEWEST: "the new message",
    }
    return texts.get(leaving.kind, f"the list of tools{other}")
