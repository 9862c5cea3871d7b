"""Which workflow answers a request: the one that the model field picked, the user's own, or one by category.

A category is named by the user's categorisation workflow, unless the routing file tells it by meaning.
Source: spec workflows.md 3.4, 4, 16.8; agents.md 8.
"""

from __future__ import annotations

import logging
import string
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from Middleware.common.errors import ConfigError, NotFound
from Middleware.common.request_context import ClientQuestion
from Middleware.common.types import Batch, Batches
from Middleware.config import paths
from Middleware.config.json_positions import position_in
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import NO_CUSTOM_WORKFLOW
from Middleware.config.validation import json_pointer
from Middleware.config.workflows import (
    Category,
    WorkflowFile,
    chat_names,
    load_routing,
    load_workflow,
    workflow_exists,
)
from Middleware.workflows.managers.workflow_manager import WorkflowManager, prepare_question
from Middleware.workflows.models.execution_context import result_text
from Middleware.workflows.processors.run import Run

logger = logging.getLogger(__name__)

DEFAULT_WORKFLOW = "_DefaultWorkflow"
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def open_answer_run(manager: WorkflowManager, question: ClientQuestion) -> Batches:
    """The run that answers the request; as `WorkflowManager.open_run`.

    Raises NotFound when nothing can answer it, ConfigError when a file on the way is wrong.
    """
    user, picked = manager.user, manager.request.workflow_folder
    if picked:
        folder = paths.shared_workflow_folder(user, picked)
        return manager.open_run(DEFAULT_WORKFLOW, question, folder=folder)
    if user.custom_workflow_override:
        with _named_by_user(manager, "customWorkflow"):
            if not user.custom_workflow:
                raise ConfigError(NO_CUSTOM_WORKFLOW)
            return manager.open_run(user.custom_workflow, question)
    if not user.routing_config or not user.categorization_workflow:
        _ensure_default(manager)
        return manager.open_run(DEFAULT_WORKFLOW, question)
    with _named_by_user(manager, "routingConfig"):
        routing = load_routing(manager.snapshot, user.routing_config)
    categories = routing.categories
    if len(categories) == 1:
        with _named_by(manager, categories[0]):
            return manager.open_run(categories[0].workflow, question)
    with _named_by_user(manager, "categorizationWorkflow"):
        categorization = load_workflow(manager.snapshot, user, user.categorization_workflow)
    asked = prepare_question(question)

    def routed_batches() -> Generator[Batch, None, None]:
        category = manager.category_by_meaning(routing, asked) or chosen_category(
            manager, categorization, categories, asked
        )
        name = category.workflow if category else DEFAULT_WORKFLOW
        with _named_by(manager, category):
            file = load_workflow(manager.snapshot, user, name)
        yield from manager.answer_of(Run(manager.state, file, asked, chain=(name,)))

    return manager.guard_answer(routed_batches(), question)


def _named_by_user(manager: WorkflowManager, field: str) -> AbstractContextManager[None]:
    return _named_at(manager.snapshot, paths.user_file(manager.user.name), f"/{field}")


def _named_by(manager: WorkflowManager, category: Category | None) -> AbstractContextManager[None]:
    """The workflow within is that of a category; without one it is the user's default."""
    if category is None:
        return _named_by_user(manager, "routingConfig")
    file = paths.routing_file(manager.user.routing_config)
    return _named_at(manager.snapshot, file, json_pointer([category.name, "workflow"]))


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


def _ensure_default(manager: WorkflowManager) -> None:
    user = manager.user
    if workflow_exists(manager.snapshot, user, DEFAULT_WORKFLOW):
        return
    models = ", ".join(f"{user.name}:{name}" for name in chat_names(manager.snapshot, user)) or user.name
    raise NotFound(
        f"user '{user.name}' has neither customWorkflowOverride nor a routing with a categorisation workflow "
        f"and no {DEFAULT_WORKFLOW} in Workflows/{user.workflow_folder}; models: {models}",
        param="model",
        code="model_not_found",
    )


def chosen_category(
    manager: WorkflowManager, file: WorkflowFile, categories: Sequence[Category], question: ClientQuestion
) -> Category | None:
    """The category that the categorisation workflow names, in as many attempts as the user allows."""
    descriptions = {category.name: category.description for category in categories}
    for _ in range(max(1, manager.user.max_categorization_attempts)):
        value = manager.run_internal(file, question, categories=descriptions)
        category = matching_category("UNKNOWN" if value is None else result_text(value), categories)
        if category is not None:
            logger.info("category %s: workflow '%s'", category.name, category.workflow)
            return category
    logger.info("no category was named: workflow '%s'", DEFAULT_WORKFLOW)
    return None


def matching_name(text: str) -> str:
    """The form in which names and answers are compared: upper case, without punctuation."""
    return text.translate(_NO_PUNCTUATION).upper()


def matching_category(text: str, categories: Sequence[Category]) -> Category | None:
    """The first category whose name stands in a word of `text`, word by word. Source: workflows.md 4.3."""
    names = [(matching_name(category.name), category) for category in categories]
    for word in matching_name(text).split():
        for name, category in names:
            if name in word:
                return category
    return None
