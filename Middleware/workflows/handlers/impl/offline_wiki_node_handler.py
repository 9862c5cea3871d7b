"""The four OfflineWikiApi nodes: articles of a local Wikipedia service. They call no model.

Source: spec tools.md 6.
"""

from __future__ import annotations

from typing import Any, ClassVar

from Middleware.common.types import NodeConfig
from Middleware.config.keys import Shape
from Middleware.workflows.handlers.base import outside_fields as fields
from Middleware.workflows.handlers.base.base_workflow_node_handler import WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.node_keys import ANY, INTEGER, QUESTION, Keys
from Middleware.workflows.tools.offline_wikipedia import BEST, FULL, PARTIAL, TOP_N, WikiKind, WikiQuery, ask

_SHARE: Shape = {"type": ["number", "string"], "pattern": r"^\s*-?\d*\.?\d+\s*$|\{"}


def _read_share(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


MANY, ONE = 10, 1
_RESULTS = INTEGER(
    f"How many to consider. Takes variables. Default: {MANY}, or {ONE} for summaries.", default=MANY
)
_PERCENTILE = INTEGER(
    "How well an article must match, from 0 to 1. Takes variables. Default: {default}.",
    should=_SHARE,
    default=0.5,
    read=_read_share,
    fraction=True,
)


class _WikiNode(WorkflowNodeHandler):
    """One question to the service that the user's settings name."""

    KEYS: ClassVar[Keys] = {
        "promptToSearch": ANY(
            "What to look for. Takes variables.", must=QUESTION, required=True, form="text"
        ),
    }
    KIND: ClassVar[WikiKind]

    def handle(self, context: ExecutionContext) -> str:
        prompt = fields.filled_text(context.value("promptToSearch"), context.fill)
        question = {"prompt": prompt, **self.numbers(context)}
        return ask(self.KIND, context.user, question, context.request_id, context.place, trace=context.trace)

    def numbers(self, context: ExecutionContext) -> WikiQuery:
        """What is asked for beside the prompt."""
        return {"percentile": _PERCENTILE.default, "num_results": ONE}

    def writes(self, config: NodeConfig) -> str:
        return ""

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        return [f"would ask the offline wiki{self.KIND.path}"] if context.user.use_offline_wiki_api else []


@NODES.register("OfflineWikiApiFullArticle")
class OfflineWikiApiFullArticleNode(_WikiNode):
    """Outputs the first article that a local Wikipedia service finds."""

    PALETTE = "tools"

    KIND = FULL


@NODES.register("OfflineWikiApiBestFullArticle")
class OfflineWikiApiBestFullArticleNode(_WikiNode):
    """Outputs the best of ten articles that a local Wikipedia service finds."""

    PALETTE = "tools"

    KIND = BEST

    def numbers(self, context: ExecutionContext) -> WikiQuery:
        return {"percentile": _PERCENTILE.default, "num_results": MANY}


class _CountedWikiNode(_WikiNode):
    KEYS: ClassVar[Keys] = {
        **_WikiNode.KEYS,
        "percentile": _PERCENTILE,
        "num_results": _RESULTS,
        "top_n_articles": INTEGER(
            "How many to output. With a negative number, the best one comes last. Takes "
            "variables. Default: {default}.",
            default=3,
        ),
    }


@NODES.register("OfflineWikiApiTopNFullArticles")
class OfflineWikiApiTopNFullArticlesNode(_CountedWikiNode):
    """Outputs several articles from a local Wikipedia service, with their titles."""

    PALETTE = "tools"

    KIND = TOP_N

    def numbers(self, context: ExecutionContext) -> WikiQuery:
        return {
            "percentile": context.value("percentile"),
            "num_results": context.value("num_results"),
            "num_top_articles": context.value("top_n_articles"),
        }


@NODES.register("OfflineWikiApiPartialArticle")
class OfflineWikiApiPartialArticleNode(_CountedWikiNode):
    """Outputs summaries of articles from a local Wikipedia service, with their titles."""

    PALETTE = "tools"

    KEYS: ClassVar[Keys] = {**_CountedWikiNode.KEYS, "num_results": _RESULTS.but(default=ONE)}
    KIND = PARTIAL

    def numbers(self, context: ExecutionContext) -> WikiQuery:
        return {name: context.value(name) for name in ("percentile", "num_results")}
