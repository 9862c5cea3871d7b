"""The texts of a run by their names (`n3.c0.raw`), as a reader may see them: cut, and without secrets. Pure.

Source: spec console.md 2.6, 4 and 6.4.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from Middleware.api.console.recorder import Cut, cut_middle
from Middleware.api.console.run_sums import count_of
from Middleware.common.costs import Cost, add_costs
from Middleware.common.secrets import MASK
from Middleware.common.types import JsonObject
from Middleware.config.endpoints import secrets_in_use
from Middleware.config.paths import DEFAULT_WORKFLOW
from Middleware.services.kept_bodies import HEAD_BYTES
from Middleware.services.node_trace import CallTrace, NodeTrace
from Middleware.services.run_trace import RunTrace, json_text
from Middleware.utilities.config_masks import mask_of, shown_value
from Middleware.utilities.hashing_utils import sha256_hex
from Middleware.utilities.model_json import is_json
from Middleware.workflows.handlers.node_types import known_type
from Middleware.workflows.processors.run import title_of

# --------------------------------------------------------------------------
# The times of a run as its answer has them: queue, other nodes, first word, thinking, saying, after.
# Pure.


class AnswerTimes:
    """Parts of a run, in seconds. `now`: of `time.monotonic()`; a part that is not over ends now.

    `answering`: the node that answers, None before one has begun. `thoughts`: what it thought. `first_s`:
    from arrival to the first text, None before it. `think_s`: 0 where no thought came before the text.
    `first_output`: when the first thought or text of the answer came, of `time.monotonic()`, 0.0: not yet.
    `took_s`: from arrival to the end.
    """

    def __init__(self, run: RunTrace, now: float) -> None:
        end = run.ended or now
        self.answering = answering_node(run)
        self.took_s = end - run.arrived
        self.queue_s = (run.begun or end) - run.arrived
        begun = self.answering.begun if self.answering is not None else end
        self.other_s = max(begun - run.begun, 0.0) if run.begun else 0.0
        self.first_s = run.first_text - run.arrived if run.first_text else None
        self.thoughts = _thoughts(self.answering)
        self.think_s = self._think(run, end)
        self.first_output = self._first_output(run)

    def _think(self, run: RunTrace, end: float) -> float:
        """From the first thing that the backend sent to the first text, if there was a thought between them.
        Without a text to the answer's end."""
        calls = list(self.answering.calls) if self.answering is not None else []
        call = next((call for call in reversed(calls) if call.first), None)
        text = run.first_text or run.answered
        if call is None or not call.thought or (text and call.thought > text):
            return 0.0
        return max((text or end) - call.first, 0.0)

    def _first_output(self, run: RunTrace) -> float:
        """Of the newest call that thought or wrote: earlier ones of the node gave no answer."""
        calls = list(self.answering.calls) if self.answering is not None else []
        thought = next((call.thought for call in reversed(calls) if call.first), 0.0)
        return min(filter(None, (thought, run.first_text)), default=0.0)


def answering_node(run: RunTrace) -> NodeTrace | None:
    """The innermost node that answers the client. A parent whose child answers began before it."""
    return next((node for node in reversed(list(run.nodes)) if node.answers), None)


def _thoughts(node: NodeTrace | None) -> list[str]:
    if node is None:
        return []
    return list(node.thoughts) or [thought for call in list(node.calls) for thought in call.thoughts]


def costs_of(run: RunTrace) -> tuple[Cost, ...]:
    """What all calls have cost, those behind the answer and embeddings too; while it runs what those have
    that ended."""
    calls = (call for node in list(run.nodes) for call in list(node.calls))
    return run.costs or add_costs(call.cost for call in calls if call.cost is not None)


# --------------------------------------------------------------------------
# Facts of a run that several of its pictures need: tokens, names, nodes that never began. Pure.


ENDED = ("done", "failed", "cancelled", "refused")
RUN_STATES = ("waiting", "running", "answering", "finishing", *ENDED)
NOT_RUN = "not_run"
_NAMES = 3


def tokens_of(run: RunTrace) -> tuple[int | None, bool]:
    """The tokens of the answer, and whether that is an estimate. None: nothing is known."""
    node = answering_node(run)
    told = count_of(run.usage, "completion_tokens")
    if told is not None:
        return told, node is not None and not _is_reported(node)
    counter = run.counter
    if counter is not None:
        return counter(), True
    return (node.tokens, True) if node is not None and node.tokens else (None, False)


def _is_reported(node: NodeTrace) -> bool:
    """Whether a backend told how much it wrote for this node; else what the client is told is an
    estimate.
    """
    return any(count_of(call.usage, "completion_tokens") is not None for call in list(node.calls))


def workflow_names(run: RunTrace) -> list[str]:
    """The first workflow, and those that lead from it to the one that answers."""
    outer = {PurePosixPath(node.workflow).stem: node for node in list(run.nodes) if node.parent is None}
    names = [run.workflow] if run.workflow else []
    if run.answering and run.answering not in names:
        names.append(run.answering)
    names = [_file_name(outer[name]) if name in outer else name for name in names]
    node, nested = answering_node(run), []
    while node is not None and node.parent is not None:
        nested.append(_file_name(node))
        node = node.parent
    return [*names, *reversed(nested)]


def _file_name(node: NodeTrace) -> str:
    """Of its file; that with which every shared folder begins has the name of the folder. Source: spec
    workbench.md 12.
    """
    file = PurePosixPath(node.workflow)
    return file.parent.name if file.stem == DEFAULT_WORKFLOW else file.stem


def workflow_of(run: RunTrace) -> str | None:
    """`Router > Code`; at most three names, then `...`."""
    names = workflow_names(run)
    shown = names[:_NAMES] + (["..."] if len(names) > _NAMES else [])
    return " > ".join(shown) or None


def not_run(run: RunTrace) -> list[NodeTrace]:
    """The nodes of the files that ran which had not begun when the run ended; without times."""
    if run.state not in ENDED:
        return []
    files: dict[tuple[int, str], list[NodeTrace]] = {}
    for node in list(run.nodes):
        files.setdefault((id(node.parent), node.workflow), []).append(node)
    return [_unstarted_node(nodes[0], n) for nodes in files.values() for n in _missing(nodes)]


def _missing(nodes: list[NodeTrace]) -> list[int]:
    begun = {node.number for node in nodes}
    return [number for number in range(1, nodes[0].of + 1) if number not in begun]


def _unstarted_node(sibling: NodeTrace, number: int) -> NodeTrace:
    fields: Mapping[str, Any] = {}
    if number <= len(sibling.file_nodes):
        fields = sibling.file_nodes[number - 1]
    return NodeTrace(
        sibling.workflow,
        number,
        known_type(fields.get("type")) if fields else "",
        title_of(fields),
        of=sibling.of,
        parent=sibling.parent,
        label=sibling.label,
        depth=sibling.depth,
        begun=0.0,
        state=NOT_RUN,
        fields=fields,
    )


# --------------------------------------------------------------------------

START = 200
_ROOM = 200
"""What stands behind the first characters of a text decides whether a secret begins in them."""
_SHORTEST_PIECE = 4
SUM_DIGITS = 12
_NODE = re.compile(r"n(0|[1-9]\d{0,5})\.(.+)", re.ASCII)
_CALL = re.compile(r"c(0|[1-9]\d{0,5})\.(.+)", re.ASCII)
_THOUGHT = re.compile(r"thoughts\.(0|[1-9]\d{0,5})", re.ASCII)

Text = str | Cut


def secrets_of(run: RunTrace) -> set[str]:
    """The keys that a run was sent with and that it sent."""
    calls = (call for node in list(run.nodes) for call in list(node.calls))
    return {*run.secrets, *(secret for call in calls for secret in call.secrets)}


class Secrets:
    """What nobody who looks at this run may read; None: what is known without a run. `more`: keys of the
    server itself."""

    def __init__(self, run: RunTrace | None, more: Iterable[str] = ()) -> None:
        known = {*more, *secrets_in_use(), *(() if run is None else secrets_of(run))}
        self._known = known - {""}
        self._longest = max(map(len, self._known), default=0)
        self.out_of = mask_of(self._known)

    def start_of(self, text: Text) -> str:
        """The first characters of a text."""
        head = text.head if isinstance(text, Cut) else text
        return self.out_of(head[: START + _ROOM + self._longest])[:START]

    def out_of_cut(self, text: Cut) -> Cut:
        """A secret that lay across the cut leaves neither of its ends."""
        head, tail = text.head, text.tail
        for secret in self._known if text.left_out else ():
            sizes = range(len(secret) - 1, _SHORTEST_PIECE - 1, -1)
            at_end = next((n for n in sizes if head.endswith(secret[:n])), 0)
            at_start = next((n for n in sizes if tail.startswith(secret[-n:])), 0)
            head = head[:-at_end] + MASK if at_end else head
            tail = MASK + tail[at_start:] if at_start else tail
        return Cut(self.out_of(head), self.out_of(tail), text.left_out)


def ref(name: str, text: Text | None, secrets: Secrets) -> JsonObject | None:
    """`{"ref", "chars", "left_out", "start", "sum"}`; None: there is no such text. Texts with one sum are
    equal, as far as they are kept. Source: spec workbench.md 10.
    """
    if text is None:
        return None
    kept = text.head + text.tail if isinstance(text, Cut) else text
    return {
        "ref": name,
        "chars": len(text),
        "left_out": text.left_out if isinstance(text, Cut) else 0,
        "start": secrets.start_of(text),
        "sum": sha256_hex(kept)[:SUM_DIGITS],
    }


def whole_text(name: str, text: Text, secrets: Secrets) -> JsonObject:
    """`{"ref", "head", "tail", "chars", "left_out", "json"}`."""
    shown = secrets.out_of_cut(text if isinstance(text, Cut) else Cut(text, "", 0))
    return {
        "ref": name,
        "head": shown.head,
        "tail": shown.tail,
        "chars": len(text),
        "left_out": shown.left_out,
        "json": not shown.left_out and is_json(shown.head),
    }


def find(run: RunTrace, name: str) -> Text | None:
    """The text of this name; None: there is none."""
    if name in _OF_RUN:
        return _OF_RUN[name](run)
    found = _NODE.fullmatch(name)
    nodes = [*run.nodes, *not_run(run)] if found else []
    if found is None or int(found[1]) >= len(nodes):
        return None
    return _in_node(nodes[int(found[1])], found[2])


def asked_text(run: RunTrace) -> Text | None:
    return _body(run.asked, run.asked_left_out)


def answer_text(run: RunTrace) -> Text | None:
    """What the client got; while it goes out what it has so far. Of an answer that broke off in the middle
    what cleaning let through."""
    so_far, node = run.text_so_far, answering_node(run)
    if so_far is not None:
        return _text(so_far())
    if node is None:
        return None
    call = next((call for call in reversed(list(node.calls)) if call.cleaned is not None), None)
    return output_text(node) or (cleaned_text(call) if call is not None else None)


_OF_RUN: Mapping[str, Callable[[RunTrace], Text | None]] = {"asked": asked_text, "answer": answer_text}


def all_texts(run: RunTrace) -> Iterator[Text]:
    """Every text that a run left; not the fields of its nodes, which stand in files."""
    asked = asked_text(run)
    if asked is not None:
        yield asked
    for node in list(run.nodes):
        holders: list[tuple[Any, Mapping[str, Callable[[Any], Text | None]]]] = [(node, _OF_NODE)]
        holders += [(call, _OF_CALL) for call in list(node.calls)]
        for holder, parts in holders:
            made = (part(holder) for name, part in parts.items() if name != "fields")
            yield from (text for text in made if text is not None)
            yield from thoughts_of(holder)


def _in_node(node: NodeTrace, name: str) -> Text | None:
    found = _CALL.fullmatch(name)
    if found is None:
        return _part(node, name, _OF_NODE)
    calls = list(node.calls)
    return _part(calls[int(found[1])], found[2], _OF_CALL) if int(found[1]) < len(calls) else None


def _part(holder: Any, name: str, parts: Mapping[str, Callable[[Any], Text | None]]) -> Text | None:
    if name in parts:
        return parts[name](holder)
    found, thoughts = _THOUGHT.fullmatch(name), thoughts_of(holder)
    return thoughts[int(found[1])] if found and int(found[1]) < len(thoughts) else None


def fields_text(node: NodeTrace) -> Text | None:
    """The node as it stands in its file, without its secrets."""
    if not node.fields:
        return None
    return _text(json.dumps(shown_value(dict(node.fields)), ensure_ascii=False, indent=2, default=str))


def output_text(node: NodeTrace) -> Text | None:
    output = node.output
    if output is None:
        return None
    return _text(output if isinstance(output, str | Cut) else json_text(output))


def body_text(call: CallTrace) -> Text | None:
    return _body(call.body, call.body_left_out)


def raw_text(call: CallTrace) -> Text | None:
    return None if call.raw is None else _text(call.raw)


def cleaned_text(call: CallTrace) -> Text | None:
    return None if call.cleaned is None else _text(call.cleaned)


def thoughts_of(holder: NodeTrace | CallTrace) -> list[Text]:
    return [_text(thought) for thought in list(holder.thoughts)]


_SWAP_BANNER = re.compile(r"\s*━+\s+llama-swap loading model:.*?\nDone! \((\d+(?:\.\d+)?)s\)", re.S)
"""What llama-swap streams as a thought while it loads (its option `sendLoadingState`)."""
_BANNER_CHARS = 16_384


def load_seconds(call: CallTrace) -> float | None:
    """How long the backend loaded the model, as it said in its numbers or in its first thought; None: it did
    not.
    """
    if call.load_s is not None:
        return call.load_s
    thoughts = "".join(one.head if isinstance(one, Cut) else one for one in thoughts_of(call))
    found = _SWAP_BANNER.match(thoughts[:_BANNER_CHARS])
    return float(found[1]) if found else None


_OF_NODE: Mapping[str, Callable[[Any], Text | None]] = {"fields": fields_text, "output": output_text}
_OF_CALL: Mapping[str, Callable[[Any], Text | None]] = {
    "body": body_text,
    "raw": raw_text,
    "cleaned": cleaned_text,
}


def _text(value: Any) -> Text:
    """As it would be kept: what runs still has its whole texts."""
    return value if isinstance(value, Cut) else cut_middle(str(value))


def _body(body: bytes, left_out: int) -> Text | None:
    if not body:
        return Cut("", "", left_out) if left_out else None
    if not left_out:
        return body.decode("utf-8", "replace")
    head, tail = body[:HEAD_BYTES], body[HEAD_BYTES:]
    return Cut(head.decode("utf-8", "replace"), tail.decode("utf-8", "replace"), left_out)
