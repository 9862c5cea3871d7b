"""Finds a workflow file: user folder, shared folder, sub-folder override, and the fallbacks for children.

Also the other files that name workflows: routing, and the settings objects in the user's workflow folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.config import paths
from Middleware.config.keys import (
    ANY,
    FLAG,
    NUMBER,
    OBJECT,
    TEXT,
    TEXTS,
    WHOLE,
    Key,
    key_field,
    keys_of_fields,
    object_of,
    object_schema,
    one_of,
)
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.named_files import lost_folder
from Middleware.config.paths import DEFAULT_WORKFLOW, TOOL_FILE, is_flat_name
from Middleware.config.users import UserSettings
from Middleware.config.validation import (
    WARNING,
    Finding,
    errors_of,
    json_pointer,
    missing_nodes,
    nearest_file,
    state_file,
    without_nulls,
)


@dataclass(frozen=True, slots=True)
class WorkflowFile:
    """One workflow as its file says. `folder`: below `Workflows/`; `file`: below the config root; all
    read-only.

    `name`: as it was asked for. `variables`: every top-level key of the object form except `nodes`.
    """

    name: str
    folder: str
    file: str
    nodes: tuple[Mapping[str, Any], ...] = field(repr=False)
    variables: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), repr=False)


@dataclass(frozen=True, slots=True)
class Category:
    """One entry of a routing file. `examples`: messages that belong to it, for routing by meaning."""

    name: str
    description: str
    workflow: str
    examples: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """What it is known by, each text once: the description first. Blank ones say nothing."""
        return tuple(dict.fromkeys(text for text in (self.description, *self.examples) if text.strip()))


@dataclass(frozen=True, slots=True)
class ByMeaning:
    """How a routing file wants messages routed by their meaning. Source: spec agents.md 8."""

    embedding_endpoint_name: str = key_field(
        TEXT, "The endpoint that turns texts into vectors.", required=True, minLength=1
    )
    threshold: float = key_field(
        NUMBER,
        "How near to a category a message must be, from 0 (unrelated) to 1 (the same text).",
        default=0.25,
        minimum=0,
        maximum=1,
    )
    margin: float = key_field(
        NUMBER,
        "How much nearer it must be to that category than to the next one.",
        default=0.12,
        minimum=0,
        maximum=1,
    )
    messages: int = key_field(
        WHOLE, "How many of the newest user messages are looked at together.", default=1, minimum=1
    )
    prefix: str = key_field(
        TEXT, "A text before each message and example, if the model wants one, such as `query: `."
    )


@dataclass(frozen=True, slots=True)
class Routing:
    """A routing file. `file`: below the config root; `by_meaning`: None: the model alone decides."""

    file: str
    categories: tuple[Category, ...]
    by_meaning: ByMeaning | None = None


def folders_to_try(user: UserSettings, folder: str | None, calling_folder: str | None) -> tuple[str, ...]:
    """Workflow folders in the order of the lookup. Source: workflows.md 8.3 and 16.9.

    An override stands alone. A child without one is looked for in the user's folder, in that of its caller,
    then in `_common`.
    """
    if folder:
        return (folder.rstrip("/"),)
    own = paths.workflow_folder(user)
    if calling_folder is None:
        return (own,)
    return tuple(dict.fromkeys((own, calling_folder, paths.COMMON_FOLDER)))


def load_workflow(
    snapshot: ConfigSnapshot,
    user: UserSettings,
    name: str,
    *,
    folder: str | None = None,
    calling_folder: str | None = None,
) -> WorkflowFile:
    """The workflow `name`. `folder`: an override; `calling_folder`: that of the workflow whose node names
    it.

    Raises ConfigMissing (all paths that were tried), ConfigError (the file's faults, or a path that leaves
    the tree).
    """
    tried, file = _looked_up(snapshot, user, name, folders_to_try(user, folder, calling_folder))
    if file is None:
        near = nearest_file(
            name.rpartition("/")[2], [n for path in tried for n in snapshot.files(_parent(path))]
        )
        gone = "" if near else lost_folder(snapshot, _parent(tried[0]))
        hint = f' (did you mean "{near}"?)' if near else f": {gone}" if gone else ""
        raise ConfigMissing(f'no workflow "{name}"{hint}; tried {", ".join(tried)}')
    return snapshot.derive(file, name, lambda document: workflow_of(name, file, document))


def child_file(
    snapshot: ConfigSnapshot, user: UserSettings, name: str, *, folder: str | None, calling_folder: str
) -> str | None:
    """The file of a workflow that a node names, whatever is in it; None: the name leads nowhere."""
    try:
        return _looked_up(snapshot, user, name, folders_to_try(user, folder, calling_folder))[1]
    except ConfigError:
        return None


def _looked_up(
    snapshot: ConfigSnapshot, user: UserSettings, name: str, folders: tuple[str, ...]
) -> tuple[list[str], str | None]:
    """(the files that were tried, the one that is there). Raises ConfigError."""
    tried = [paths.workflow_file(each, name) for each in folders]
    return tried, snapshot.first(tried)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def workflow_of(name: str, file: str, document: Any) -> WorkflowFile:
    """A workflow from its file's value: a list of nodes, or an object with `nodes` and variables.

    Raises ConfigError for an object without `nodes`: that is something else.
    """
    if error := errors_of(missing_nodes(document, file)):
        raise error
    depth = name.strip("/").count("/") + 1
    folder = "/".join(file.split("/")[1:-depth])
    if isinstance(document, Mapping):
        variables = {key: value for key, value in document.items() if key != "nodes"}
        return WorkflowFile(
            name, folder, file, tuple(document.get("nodes") or ()), MappingProxyType(variables)
        )
    return WorkflowFile(name, folder, file, tuple(document))


def workflow_exists(
    snapshot: ConfigSnapshot, user: UserSettings, name: str, *, folder: str | None = None
) -> bool:
    """Whether the workflow's file is there (whatever is in it)."""
    tried = [paths.workflow_file(each, name) for each in folders_to_try(user, folder, None)]
    return snapshot.first(tried) is not None


def shared_root(snapshot: ConfigSnapshot, user: UserSettings) -> str:
    """The user's shared folder as it is spelled on disk. Raises ConfigError when two differ in case only."""
    folder = paths.shared_folder(user)
    return snapshot.find(folder) or folder


def shared_names(snapshot: ConfigSnapshot, user: UserSettings) -> list[str]:
    """The sub-folders of the user's shared folder that are listed as models, sorted. Raises ConfigError."""
    return [name for name in snapshot.folders(shared_root(snapshot, user)) if not name.startswith("_")]


def picked_folder(snapshot: ConfigSnapshot, user: UserSettings, picked: str) -> str | None:
    """The workflow folder that a name from the model field picks; None: no such workflow. Source:
    workflows.md 1.3.
    """
    if not paths.is_flat_name(picked) or picked not in snapshot.folders(shared_root(snapshot, user)):
        return None
    return f"{shared_root(snapshot, user)}/{picked}".removeprefix(f"{paths.WORKFLOWS}/")


BY_MEANING = "_byMeaning"
"""The key of a routing file that is no category."""
_MEANING_FIELDS = keys_of_fields(ByMeaning)
CATEGORY_KEYS: Mapping[str, Key] = {
    "description": TEXT("What the category is about; shown to the model that chooses.", required=True),
    "workflow": TEXT("Workflow in the user's folder.", required=True, minLength=1),
    "examples": TEXTS(
        "Messages that belong to the category, written as people write them; for `_byMeaning`.", default=[]
    ),
}

state_file(
    "routing",
    "Routing",
    "Routing/<name>.json: category -> the workflow that answers it. The order counts.",
    {
        BY_MEANING: object_of({name: each.key for name, each in _MEANING_FIELDS.items()})(
            "Compare messages with the examples of the categories, and ask the model only when that isn't "
            "clear."
        )
    },
    minProperties=1,
    additionalProperties=object_schema(CATEGORY_KEYS),
)


def load_routing(snapshot: ConfigSnapshot, name: str) -> Routing:
    """A routing file, its categories in their order. Raises ConfigMissing, ConfigError."""
    wanted = paths.routing_file(name)
    file = snapshot.find(wanted)
    if file is None:
        near = nearest_file(name, snapshot.files("Routing"))
        hint = f' (did you mean "{near}"?)' if near else ""
        raise ConfigMissing(f'no routing file "{name}"{hint}; tried {wanted}')

    def make(document: Any) -> Routing:
        for pointer, why in routing_faults(document):
            raise ConfigError(why, file=file, pointer=pointer)
        return _routing(file, without_nulls(document))

    return snapshot.derive(file, "routing", make)


def _routing(file: str, said: Mapping[str, Any]) -> Routing:
    categories = tuple(
        Category(
            key,
            value["description"],
            value["workflow"],
            tuple(CATEGORY_KEYS["examples"].value_in(value, "examples")),
        )
        for key, value in said.items()
        if key != BY_MEANING
    )
    own = said.get(BY_MEANING)
    if own is None:
        return Routing(file, categories)
    typed = {each.attribute: each.value(own.get(key)) for key, each in _MEANING_FIELDS.items()}
    return Routing(file, categories, ByMeaning(**typed))


def routing_faults(document: Any) -> Iterator[tuple[str, str]]:
    """(JSON pointer, what is wrong) of a routing file that fits its schema."""
    if isinstance(document, Mapping) and list(without_nulls(document)) == [BY_MEANING]:
        yield "", f"found no category beside {BY_MEANING!r}, allowed: at least one"


def load_settings(snapshot: ConfigSnapshot, user: UserSettings, name: str) -> Mapping[str, Any]:
    """A settings object that the user file names (`discussionIdMemoryFileWorkflowSettings`, ...), read-only.

    Always from the user's own workflow folder. Raises ConfigMissing, ConfigError.
    """
    wanted = paths.workflow_file(paths.workflow_folder(user), name)
    file = snapshot.find(wanted)
    if file is None:
        raise ConfigMissing(f'no settings file "{name}"; tried {wanted}')
    settings: Mapping[str, Any] = snapshot.read(file)
    return MappingProxyType(dict(settings)) if isinstance(settings, Mapping) else MappingProxyType({})


def is_workflow(snapshot: ConfigSnapshot, file: str) -> bool:
    """Whether a file holds a workflow: a list, or an object with `nodes`."""
    try:
        document, error = snapshot.inspect(file)
    except ConfigMissing:  # a link that leads nowhere, or deleted since its folder was listed
        return False
    return error is None and (
        isinstance(document, list) or (isinstance(document, Mapping) and "nodes" in document)
    )


def list_workflow_files(snapshot: ConfigSnapshot, folder: str = "Workflows") -> Iterator[str]:
    """All files below Workflows/ that hold workflows: lists, and objects with `nodes`."""
    for name in snapshot.files(folder):
        if is_workflow(snapshot, f"{folder}/{name}.json"):
            yield f"{folder}/{name}.json"
    for name in snapshot.folders(folder):
        yield from list_workflow_files(snapshot, f"{folder}/{name}")


# --------------------------------------------------------------------------
# Shared workflows that are tools: the file `_mcpTool.json` beside `_DefaultWorkflow.json`.


FITTING_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")

_OTHER = re.compile(r"[^A-Za-z0-9_.-]")
_ONE_INPUT: Mapping[str, Any] = {
    "message": {"type": "string", "description": "What to do.", "required": True}
}
LATEST_TAG = "latest"
"""What Ollama clients put behind a name and a colon: it names no workflow."""
_SHOWN = ("type", "description", "enum", "default")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return _is_number(value) and value == value // 1


INPUT_KINDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "string": ("a string", lambda value: isinstance(value, str)),
    "integer": ("a whole number", _is_whole),
    "number": ("a number", _is_number),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
}
"""`type` of an input -> (in words, claims that a value is of it)."""


_INPUT_KEYS = {
    "type": one_of(*INPUT_KINDS)("Absent: string."),
    "description": TEXT("What the model reads of it."),
    "enum": Key(must={"type": "array", "minItems": 1})("The values that are allowed; absent: any."),
    "default": ANY("Its value where the model gives none; absent: an empty text."),
    "required": FLAG.strict("The model must give it."),
}
TOOL_KEYS = {
    "description": TEXT("What the model reads of the tool; blank: it is no tool.", required=True),
    "name": TEXT(
        "Its name; absent: the folder's, other characters as _.",
        pattern=f"^{FITTING_NAME.pattern}$",
        allowed="1 to 64 letters, digits, `_`, `.`, `-`",
    ),
    "title": TEXT("Its name for people."),
    "inputs": OBJECT(
        "What it takes; in this order they are {agent1Input}, {agent2Input}, ... of the workflow. Absent: "
        "one text, `message`.",
        additionalProperties=object_schema(_INPUT_KEYS),
    ),
    "message": TEXT(
        "The user message of the run; {name} is replaced by that input. Absent: the first input."
    ),
    "chat": FLAG.strict(
        "List the workflow as a chat model, too (where allowSharedWorkflows lists the others)."
    ),
}
state_file(
    "mcptool",
    "Workflow as an MCP tool",
    "Workflows/<shared folder>/<folder>/_mcpTool.json: makes the folder's _DefaultWorkflow a tool at /mcp.",
    TOOL_KEYS,
)


@dataclass(frozen=True, slots=True)
class ToolInput:
    """`schema`: what a model is shown of it (JSON Schema)."""

    name: str
    schema: Mapping[str, Any]
    required: bool = False

    def fault(self, value: Any) -> str | None:
        """What a value must be that is not: `'port' must be a text`; None: it fits."""
        words, fits = INPUT_KINDS[self.schema["type"]]
        if not fits(value):
            return f"{self.name!r} must be {words}"
        allowed = self.schema.get("enum")
        if allowed is not None and value not in allowed:
            return f"{self.name!r} must be one of: {', '.join(map(str, allowed))}"
        return None


@dataclass(frozen=True, slots=True)
class WorkflowTool:
    """One tool. `folder`: that of its workflow; `message`: with `{input}` where an input's text stands.
    `chat`: it is on the model lists, too.
    """

    folder: str
    name: str
    description: str
    title: str | None
    inputs: tuple[ToolInput, ...] = field(repr=False)
    message: str = field(repr=False)
    chat: bool = False


@dataclass(slots=True)
class ToolOffer:
    """The tools of one user, by folder, and what was left out: `faulty` files, `unfit` among good ones."""

    tools: list[WorkflowTool] = field(default_factory=list)
    faulty: list[ConfigError] = field(default_factory=list)
    unfit: list[Finding] = field(default_factory=list)


def tool_file(folder: str) -> str:
    """`folder`: below the config root."""
    return f"{folder}/{TOOL_FILE}.json"


def tool_offer(snapshot: ConfigSnapshot, user: UserSettings) -> ToolOffer:
    """What the shared folder of a user offers. Raises ConfigError when that folder itself cannot be known."""
    offer = ToolOffer()
    names: set[str] = set()
    root = shared_root(snapshot, user)
    for folder in shared_names(snapshot, user):
        file = tool_file(f"{root}/{folder}")
        if not snapshot.exists(file):
            continue
        try:
            tool = load_tool(snapshot, file)
        except ConfigError as error:
            offer.faulty.append(error)
            continue
        if why := _unfit(snapshot, tool, f"{root}/{folder}", names):
            offer.unfit.append(Finding(file, "", WARNING, why))
        elif tool.description.strip():
            names.add(tool.name)
            offer.tools.append(tool)
    return offer


def _unfit(snapshot: ConfigSnapshot, tool: WorkflowTool, folder: str, taken: set[str]) -> str:
    """Why a tool is not offered whose file is good; nothing for one that is."""
    if not snapshot.exists(f"{folder}/{DEFAULT_WORKFLOW}.json"):
        return f"is not offered as a tool, because there is no {DEFAULT_WORKFLOW}.json beside it"
    if not FITTING_NAME.fullmatch(tool.name):
        return (
            f"is not offered as a tool, because the name {tool.name!r} has more than 64 "
            "characters; set `name`"
        )
    if tool.name in taken:
        return (
            "is not offered as a tool, because another folder already uses the name "
            f"{tool.name!r}; set `name`"
        )
    return ""


def chat_names(snapshot: ConfigSnapshot, user: UserSettings) -> list[str]:
    """The sub-folders of the user's shared folder that are chat models, sorted.

    A tool is one only when its file says `"chat": true`. A folder that no `model` field can name is none.
    Raises ConfigError when the shared folder itself cannot be known. Source: frontend-api.md 5.
    """
    root = shared_root(snapshot, user)
    return [
        name
        for name in shared_names(snapshot, user)
        if is_flat_name(name) and name != LATEST_TAG and _chats(snapshot, tool_file(f"{root}/{name}"))
    ]


def _chats(snapshot: ConfigSnapshot, file: str) -> bool:
    """Whether the workflow beside this tool file is a chat model. One with a faulty file is not."""
    if not snapshot.exists(file):
        return True
    try:
        return load_tool(snapshot, file).chat
    except ConfigError:
        return False


def load_tool(snapshot: ConfigSnapshot, file: str) -> WorkflowTool:
    """Raises ConfigMissing, ConfigError (the file's faults)."""

    def make(document: Any) -> WorkflowTool:
        for pointer, why in tool_faults(document):
            raise ConfigError(why, file=file, pointer=pointer)
        return _tool(document, file.split("/")[-2])

    return snapshot.derive(file, "tool", make)


def input_count(snapshot: ConfigSnapshot, file: str) -> int:
    """How many inputs the workflow beside this file is given; 0: there is no such file, or it is faulty."""
    try:
        return len(load_tool(snapshot, file).inputs)
    except ConfigError:
        return 0


def _tool(document: Any, folder: str) -> WorkflowTool:
    said = without_nulls(document)
    inputs = tuple(_input(name, entry) for name, entry in said.get("inputs", _ONE_INPUT).items())
    first = f"{{{inputs[0].name}}}" if inputs else ""
    return WorkflowTool(
        folder,
        said.get("name") or _OTHER.sub("_", folder),
        said["description"],
        said.get("title"),
        inputs,
        said.get("message", first),
        TOOL_KEYS["chat"].value_in(said, "chat"),
    )


def _input(name: str, entry: Mapping[str, Any]) -> ToolInput:
    shown = {"type": "string", **{key: value for key, value in entry.items() if key in _SHOWN}}
    return ToolInput(name, shown, _INPUT_KEYS["required"].value_in(entry, "required"))


def tool_faults(document: Any) -> Iterator[tuple[str, str]]:
    """(JSON pointer, what is wrong) of a file that fits its schema: values that their own input refuses."""
    said = without_nulls(document)
    inputs = said.get("inputs") if isinstance(said, Mapping) else None
    for name, entry in inputs.items() if isinstance(inputs, Mapping) else ():
        if not isinstance(entry, Mapping) or entry.get("type", "string") not in INPUT_KINDS:
            continue
        words, fits = INPUT_KINDS[entry.get("type", "string")]
        allowed = entry.get("enum", [])
        for index, value in enumerate(allowed if isinstance(allowed, list) else ()):
            if not fits(value):
                yield (
                    json_pointer(["inputs", name, "enum", index]),
                    f"must be {words}, like the type of the input",
                )
        if "default" in entry and (why := _input(name, entry).fault(entry["default"])):
            yield json_pointer(["inputs", name, "default"]), f"does not fit: {why}"
