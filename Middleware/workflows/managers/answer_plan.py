"""Which workflow answers a request of a user, as far as the files say it. Runs nothing.

The one answer to that question: requests, checks and the console's page of model names go by it.
Source: spec workflows.md 3.4, 4; workbench.md 15.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from Middleware.common.errors import ConfigError, NotFound
from Middleware.config import paths
from Middleware.config.json_positions import position_in
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.paths import DEFAULT_WORKFLOW
from Middleware.config.users import NO_CUSTOM_WORKFLOW, UserSettings
from Middleware.config.validation import json_pointer
from Middleware.config.workflows import Category, Routing, chat_names, load_routing, workflow_exists

CUSTOM, CATEGORIZATION, ROUTING = "customWorkflow", "categorizationWorkflow", "routingConfig"
"""Settings of a user that name what answers."""


@dataclass(frozen=True, slots=True)
class AnswerPlan:
    """`workflow`: the one that answers; of several categories the one that chooses among them. `folder`:
    where it is looked for, None: as usual. `routing`: a file of it, which has one category or lets `workflow`
    choose. `setting`: of the user, that names the workflow; empty: none does.
    """

    workflow: str
    folder: str | None = None
    routing: Routing | None = None
    setting: str = ""

    @property
    def chooses(self) -> bool:
        """Whether a run decides which workflow answers."""
        return self.setting == CATEGORIZATION

    def named(self, snapshot: ConfigSnapshot, user: UserSettings) -> AbstractContextManager[None]:
        """Errors within, of a name that leads nowhere, say where `workflow` is named."""
        if self.setting:
            return named_by_user(snapshot, user, self.setting)
        return nullcontext() if self.routing is None else named_by(snapshot, user, self.routing.categories[0])


def plan_answer(snapshot: ConfigSnapshot, user: UserSettings, picked: str | None) -> AnswerPlan:
    """`picked`: the shared workflow that the model name picks, None: the user's own.

    Raises NotFound when nothing can answer, ConfigError when the user file or the routing file is wrong.
    """
    if picked:
        return AnswerPlan(DEFAULT_WORKFLOW, paths.shared_workflow_folder(user, picked))
    if user.custom_workflow_override:
        with named_by_user(snapshot, user, CUSTOM):
            if not user.custom_workflow:
                raise ConfigError(NO_CUSTOM_WORKFLOW)
        return AnswerPlan(user.custom_workflow, setting=CUSTOM)
    if not user.routing_config or not user.categorization_workflow:
        _ensure_default(snapshot, user)
        return AnswerPlan(DEFAULT_WORKFLOW)
    with named_by_user(snapshot, user, ROUTING):
        routing = load_routing(snapshot, user.routing_config)
    if len(routing.categories) == 1:
        return AnswerPlan(routing.categories[0].workflow, routing=routing)
    return AnswerPlan(user.categorization_workflow, routing=routing, setting=CATEGORIZATION)


def named_by_user(snapshot: ConfigSnapshot, user: UserSettings, setting: str) -> AbstractContextManager[None]:
    """The name that is followed within stands in the user file."""
    return _named_at(snapshot, paths.user_file(user.name), f"/{setting}")


def named_by(
    snapshot: ConfigSnapshot, user: UserSettings, category: Category | None
) -> AbstractContextManager[None]:
    """The workflow within is that of a category; without one it is the user's default."""
    if category is None:
        return named_by_user(snapshot, user, ROUTING)
    file = paths.routing_file(user.routing_config)
    return _named_at(snapshot, file, json_pointer([category.name, "workflow"]))


@contextmanager
def _named_at(snapshot: ConfigSnapshot, wanted: str, pointer: str) -> Iterator[None]:
    """A name that leads nowhere is told with the place that holds it; a fault of a file has its own place."""
    file = snapshot.find(wanted) or wanted
    try:
        with snapshot.spelling.named_at(file, pointer):
            yield
    except ConfigError as error:
        if error.file:
            raise
        position = position_in(snapshot.text(file), file, pointer)
        raise type(error)(error.message, file=file, pointer=pointer, position=position) from error


def _ensure_default(snapshot: ConfigSnapshot, user: UserSettings) -> None:
    if workflow_exists(snapshot, user, DEFAULT_WORKFLOW):
        return
    models = ", ".join(f"{user.name}:{name}" for name in chat_names(snapshot, user)) or user.name
    raise NotFound(
        f"user '{user.name}' has neither customWorkflowOverride nor a routing with a categorisation workflow "
        f"and no {DEFAULT_WORKFLOW} in Workflows/{user.workflow_folder}; models: {models}",
        param="model",
        code="model_not_found",
    )
