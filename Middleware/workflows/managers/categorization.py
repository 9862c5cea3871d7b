"""Which workflow answers a request: the one that the model field picked, the user's own, or one by category.

A category is named by the user's categorisation workflow, unless the routing file tells it by meaning.
Source: spec workflows.md 3.4, 4, 16.8; agents.md 8.
"""

from __future__ import annotations

import logging
import string
from collections.abc import Generator, Sequence

from Middleware.common.request_context import ClientQuestion
from Middleware.common.types import Batch, Batches
from Middleware.config.paths import DEFAULT_WORKFLOW
from Middleware.config.workflows import Category, WorkflowFile, load_workflow
from Middleware.workflows.managers.answer_plan import named_by, plan_answer
from Middleware.workflows.managers.workflow_manager import WorkflowManager, prepare_question
from Middleware.workflows.models.execution_context import result_text
from Middleware.workflows.processors.run import Run

logger = logging.getLogger(__name__)

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def open_answer_run(manager: WorkflowManager, question: ClientQuestion) -> Batches:
    """The run that answers the request; as `WorkflowManager.open_run`.

    Raises NotFound when nothing can answer it, ConfigError when a file on the way is wrong.
    """
    user, snapshot = manager.user, manager.snapshot
    plan = plan_answer(snapshot, user, manager.request.workflow_folder)
    if plan.routing is None or not plan.chooses:
        with plan.named(snapshot, user):
            return manager.open_run(plan.workflow, question, folder=plan.folder)
    with plan.named(snapshot, user):
        categorization = load_workflow(snapshot, user, plan.workflow)
    routing, asked = plan.routing, prepare_question(question)

    def routed_batches() -> Generator[Batch, None, None]:
        category = manager.category_by_meaning(routing, asked) or chosen_category(
            manager, categorization, routing.categories, asked
        )
        name = category.workflow if category else DEFAULT_WORKFLOW
        with named_by(snapshot, user, category):
            file = load_workflow(snapshot, user, name)
        yield from manager.answer_of(Run(manager.state, file, asked, chain=(name,)))

    return manager.guard_answer(routed_batches(), question)


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
