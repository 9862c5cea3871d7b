"""What the variables of one node are made from: a frozen value that the engine makes once a node.

Nothing here computes anything; `providers.py` does, and only for the names that a text uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from Middleware.common.request_context import RequestContext
from Middleware.common.types import Messages, NodeConfig
from Middleware.config.users import UserSettings

if TYPE_CHECKING:
    from Middleware.llmapis.llm_handler import LlmHandler


def _no_time_context() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class VariableSource:
    """All that a placeholder of one node can show. `dataclasses.replace(source, messages=...)` for other
    messages.

    `workflow_variables`: top-level keys of the file without `nodes`, raw. Of this run, up to now:
    `agent_inputs` `{"agent1Input": ...}`, `agent_outputs` `{"agent1Output": ...}`, `thoughts`
    `{"agent1Thinking": str}`. `time_context()` gives `time_context_summary`; called only when a text names
    it. `llm_handler`: the node's model; None = no endpoint, or not loaded yet (counts as a chat model).
    `node`: the node object, numbers coerced (`jinja2`, window numbers and flags are read here).
    `categories`: category name -> description in file order; only in the categorisation run, else empty.
    `has_conversation`: the client sent messages, though none with a text may be left in `messages`.
    `drop_all_system`: memory nodes: `chat_*` slices drop every system message.
    `file`, `pointer`: the workflow file below the config root, the node's JSON pointer (`/nodes/2`); for
    warnings. `now`: the clock, local time; read at most once a substitution.
    """

    request: RequestContext
    user: UserSettings
    node: NodeConfig = field(default_factory=dict)
    workflow_variables: Mapping[str, Any] = field(default_factory=dict)
    agent_inputs: Mapping[str, Any] = field(default_factory=dict)
    agent_outputs: Mapping[str, Any] = field(default_factory=dict)
    thoughts: Mapping[str, str] = field(default_factory=dict)
    messages: Messages = field(default_factory=list)
    has_conversation: bool = False
    discussion_id: str | None = None
    time_context: Callable[[], str] = _no_time_context
    llm_handler: LlmHandler | None = None
    categories: Mapping[str, str] = field(default_factory=dict)
    drop_all_system: bool = False
    file: str = ""
    pointer: str = ""
    now: Callable[[], datetime] = datetime.now
