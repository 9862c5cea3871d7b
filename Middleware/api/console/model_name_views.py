"""Who answers which model name: the table of all names, and what one name would run.

Asks what requests ask (`choose`, `plan_answer`), so the page says what a request of the name would do, word
for word the sentence of its refusal. Source: spec workbench.md 15.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from Middleware.api.console.view_contract import ApiRoute, Ask, Hub
from Middleware.api.requests.model_names import ModelChoice, advertised_ids, askable_users, choose
from Middleware.api.requests.request_life import sentence_for_client
from Middleware.common.errors import ConfigError, MiddlewareError
from Middleware.common.request_context import target_name
from Middleware.common.types import JsonObject
from Middleware.config import paths
from Middleware.config.endpoints import secrets_in_use
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.offered_names import load_aliases
from Middleware.config.paths import ALIASES_FILE, DEFAULT_WORKFLOW
from Middleware.config.users import UserSettings, load_user
from Middleware.config.workflows import Category, chat_names, load_workflow
from Middleware.services.run_trace import RunTrace
from Middleware.utilities.config_masks import mask_of
from Middleware.workflows.managers.answer_plan import AnswerPlan, named_by, plan_answer

HOUR_S = 3600
OTHERWISE = "else"
"""In place of a category: none was chosen."""


class Branch(NamedTuple):
    """A workflow that may answer. `category`: by which it is chosen; empty: nothing chooses. `file`: None:
    its name leads nowhere, and `error` says so as a client is told it."""

    workflow: str
    file: str | None
    category: str = ""
    error: str = ""


class NameAnswer(NamedTuple):
    """What a name runs. `chooser`: a workflow that runs first and chooses a branch. `said_in`: (file,
    setting) that says so; empty: the workflow is found by its folder. `endpoint`: it answers without a
    workflow."""

    choice: ModelChoice
    branches: tuple[Branch, ...] = ()
    chooser: Branch | None = None
    said_in: tuple[str, str] = ("", "")
    endpoint: str = ""


def answer_of_name(snapshot: ConfigSnapshot, name: object) -> NameAnswer:
    """Raises what a request of this name is refused with (MiddlewareError)."""
    choice = choose(name, snapshot)
    user = choice.settings(snapshot)
    if choice.endpoint:
        return NameAnswer(
            choice, said_in=(_user_file(snapshot, user), "exposeEndpoints"), endpoint=choice.endpoint
        )
    plan = plan_answer(snapshot, user, choice.workflow)
    if plan.chooses:
        return _routed(snapshot, user, choice, plan)
    said_in = (_user_file(snapshot, user), plan.setting) if plan.setting else ("", "")
    if plan.routing is not None:
        said_in = (plan.routing.file, plan.routing.categories[0].name)
    return NameAnswer(choice, (_branch(snapshot, user, plan),), said_in=said_in)


def _routed(
    snapshot: ConfigSnapshot, user: UserSettings, choice: ModelChoice, plan: AnswerPlan
) -> NameAnswer:
    assert plan.routing is not None
    branches = [_category_branch(snapshot, user, category) for category in plan.routing.categories]
    branches.append(_category_branch(snapshot, user, None))
    chooser = _branch(snapshot, user, plan)
    return NameAnswer(choice, tuple(branches), chooser, (plan.routing.file, ""))


def _branch(snapshot: ConfigSnapshot, user: UserSettings, plan: AnswerPlan) -> Branch:
    try:
        with plan.named(snapshot, user):
            file = load_workflow(snapshot, user, plan.workflow, folder=plan.folder)
    except ConfigError as error:
        return Branch(plan.workflow, None, error=sentence_for_client(error))
    return Branch(plan.workflow, file.file)


def _category_branch(snapshot: ConfigSnapshot, user: UserSettings, category: Category | None) -> Branch:
    """Of one category; None: of none."""
    name = category.workflow if category else DEFAULT_WORKFLOW
    label = category.name if category else OTHERWISE
    try:
        with named_by(snapshot, user, category):
            file = load_workflow(snapshot, user, name)
    except ConfigError as error:
        return Branch(name, None, label, sentence_for_client(error))
    return Branch(name, file.file, label)


def _user_file(snapshot: ConfigSnapshot, user: UserSettings) -> str:
    file = paths.user_file(user.name)
    return snapshot.find(file) or file


# --------------------------------------------------------------------------
# Which files requests begin with, for the marks in the tree.


def _names_to_ask(snapshot: ConfigSnapshot) -> dict[str, bool]:
    """Name -> whether model lists have it: those of the lists, then the shared workflows that can be picked
    although none has them. None where nobody is served: there is no pointer, or it names nobody.
    """
    try:
        names = dict.fromkeys(advertised_ids(snapshot), True)
        for user in askable_users(snapshot):
            for workflow in _pickable(snapshot, user):
                names.setdefault(target_name(user, workflow), False)
    except ConfigError:
        return {}
    return names


def _pickable(snapshot: ConfigSnapshot, user: str) -> list[str]:
    """The shared workflows of a user; of one whose files have faults none is known."""
    try:
        return chat_names(snapshot, load_user(snapshot, user))
    except ConfigError:
        return []


def started_by(snapshot: ConfigSnapshot) -> dict[str, list[str]]:
    """File -> the model names whose requests begin with it."""
    starts: dict[str, list[str]] = {}
    for name in _names_to_ask(snapshot):
        try:
            answer = answer_of_name(snapshot, name)
        except MiddlewareError:
            continue
        if answer.choice.alias:
            continue  # it begins with what it stands for
        first = answer.chooser or next(iter(answer.branches), None)
        if first is not None and first.file:
            starts.setdefault(first.file, []).append(name)
    return starts


def names_that_run(
    snapshot: ConfigSnapshot, user: str, files: Collection[str], endpoint: str
) -> Iterator[str]:
    """The model names of a user whose requests may run one of these workflow files, or are answered by this
    endpoint without one."""
    for name in _names_to_ask(snapshot):
        try:
            answer = answer_of_name(snapshot, name)
        except MiddlewareError:
            continue
        firsts = [branch.file for branch in (answer.chooser, *answer.branches) if branch is not None]
        is_hit = answer.endpoint == endpoint or any(file in files for file in firsts)
        if answer.choice.user == user and is_hit:
            yield name


# --------------------------------------------------------------------------


def model_names(ask: Ask) -> JsonObject:
    """GET `model-names`: `{"names": [...], "fell_back": [{"name", "user", "count", "last"}]}`; the names as
    model lists have them, then those that none has, then the patterns of the aliases."""
    ask.words()
    snapshot = ask.hub.snapshot()
    names = [
        {**_name_json(ask.hub, snapshot, name), "listed": is_listed}
        for name, is_listed in _names_to_ask(snapshot).items()
    ]
    patterns = (alias for alias in load_aliases(snapshot) if alias.is_pattern)
    names += [{**_pattern_json(alias.name, alias.target), "listed": False} for alias in patterns]
    return {"names": names, "fell_back": list(_fallen_names(ask.hub.recorder.runs(), time.time()))}


def model_name(ask: Ask, name: str) -> JsonObject:
    """GET `model-names/<name>`: what it would run, or the sentence of its refusal."""
    ask.words()
    return _name_json(ask.hub, ask.hub.snapshot(), name)


def _name_json(hub: Hub, snapshot: ConfigSnapshot, name: str) -> JsonObject:
    mask = mask_of((*hub.secrets, *secrets_in_use()))
    told: dict[str, Any] = {
        "name": name,
        "user": None,
        "stands_for": None,
        "fell_back": False,
        "endpoint": None,
        "chooser": None,
        "branches": [],
        "said_in": None,
        "error": None,
        "status": None,
    }
    try:
        answer = answer_of_name(snapshot, name)
    except MiddlewareError as error:
        return {**told, "error": mask(sentence_for_client(error)), "status": error.status_hint}
    choice, (file, setting) = answer.choice, answer.said_in
    target = ModelChoice(choice.user, choice.workflow, choice.endpoint).name
    return {
        **told,
        "user": choice.user,
        "stands_for": target if choice.alias else None,
        "fell_back": choice.fell_back,
        "endpoint": answer.endpoint or None,
        "chooser": answer.chooser and _branch_json(answer.chooser, mask),
        "branches": [_branch_json(branch, mask) for branch in answer.branches],
        "said_in": {"file": ALIASES_FILE if choice.alias else file or None, "setting": setting or None},
    }


def _branch_json(branch: Branch, mask: Any) -> JsonObject:
    return {
        "category": branch.category or None,
        "workflow": branch.workflow,
        "file": branch.file,
        "error": mask(branch.error) if branch.error else None,
    }


def _pattern_json(name: str, target: str) -> JsonObject:
    """A line of the aliases that fits many names: what each of them runs is asked by its name."""
    return {
        "name": name,
        "user": target.partition(":")[0],
        "stands_for": target,
        "fell_back": False,
        "endpoint": None,
        "chooser": None,
        "branches": [],
        "said_in": {"file": ALIASES_FILE, "setting": None},
        "error": None,
        "status": None,
    }


def _fallen_names(runs: Iterable[RunTrace], now: float) -> Iterator[JsonObject]:
    """The names of the last hour that nobody has, of the runs that are kept; the newest first."""
    fallen: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        if run.fell_back and run.wall > now - HOUR_S:
            fallen.setdefault((run.fell_back, run.user), []).append(run.wall)
    for (name, user), times in fallen.items():
        yield {"name": name, "user": user, "count": len(times), "last": round(max(times), 3)}


MODEL_NAME_ROUTES = (
    ApiRoute("GET", "model-names", "look", model_names),
    ApiRoute("GET", "model-names/<path:name>", "look", model_name),
)
