"""The four OfflineWikiApi nodes: articles of a local Wikipedia service. They call no model.

Source: spec tools.md 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from Middleware.common.errors import ConfigError
from Middleware.common.types import NodeConfig
from Middleware.workflows.handlers.base import outside_fields as fields
from Middleware.workflows.handlers.base.base_workflow_node_handler import (
    INTEGER,
    NUMBERLIKE,
    Schema,
    WorkflowNodeHandler,
)
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.tools.offline_wikipedia import BEST, FULL, PARTIAL, TOP_N, WikiKind, WikiQuery, ask

_QUERY: Schema = {"type": ["string", "number", "boolean", "array", "object"]}
_SHARE: Schema = {"type": ["number", "string"], "pattern": r"^\s*-?\d*\.?\d+\s*$|\{"}


class _WikiNode(WorkflowNodeHandler):
    """One question to the service that the user's settings name."""

    FIELDS: ClassVar[Mapping[str, str]] = {
        "promptToSearch": "What to look for. Takes variables.",
    }
    SCHEMA: ClassVar[Schema] = {"properties": {"promptToSearch": _QUERY}, "required": ["promptToSearch"]}
    KIND: ClassVar[WikiKind]

    def handle(self, context: ExecutionContext) -> str:
        prompt = context.config.get("promptToSearch")
        if prompt is None:
            raise ConfigError(f"a {context.config.get('type')} needs a 'promptToSearch'")
        question = {"prompt": fields.filled_text(prompt, context.fill), **self.numbers(context.config)}
        return ask(
            self.KIND, context.user, question, context.request_id, fields.place(context), trace=context.trace
        )

    def numbers(self, config: NodeConfig) -> WikiQuery:
        """What is asked for beside the prompt."""
        return {"percentile": 0.5, "num_results": 1}

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        return [f"would ask the offline wiki{self.KIND.path}"] if context.user.use_offline_wiki_api else []


@NODES.register("OfflineWikiApiFullArticle")
class OfflineWikiApiFullArticleNode(_WikiNode):
    """Outputs the first article that a local Wikipedia service finds."""

    KIND = FULL


@NODES.register("OfflineWikiApiBestFullArticle")
class OfflineWikiApiBestFullArticleNode(_WikiNode):
    """Outputs the best of ten articles that a local Wikipedia service finds."""

    KIND = BEST

    def numbers(self, config: NodeConfig) -> WikiQuery:
        return {"percentile": 0.5, "num_results": 10}


class _CountedWikiNode(_WikiNode):
    FIELDS: ClassVar[Mapping[str, str]] = {
        "promptToSearch": "What to look for. Takes variables.",
        "percentile": "How well an article must match, from 0 to 1. Takes variables. Default: 0.5.",
        "num_results": "How many to consider. Takes variables. Default: 10, or 1 for summaries.",
        "top_n_articles": "How many to output. With a negative number, the best one comes last. Takes "
        "variables. Default: 3.",
    }
    SCHEMA: ClassVar[Schema] = {
        "properties": {
            "promptToSearch": _QUERY,
            "percentile": NUMBERLIKE,
            "num_results": NUMBERLIKE,
            "top_n_articles": NUMBERLIKE,
        },
        "required": ["promptToSearch"],
    }
    ADVICE: ClassVar[Schema] = {
        "properties": {"percentile": _SHARE, "num_results": INTEGER, "top_n_articles": INTEGER}
    }


@NODES.register("OfflineWikiApiTopNFullArticles")
class OfflineWikiApiTopNFullArticlesNode(_CountedWikiNode):
    """Outputs several articles from a local Wikipedia service, with their titles."""

    KIND = TOP_N

    def numbers(self, config: NodeConfig) -> WikiQuery:
        return {
            "percentile": config.get("percentile", 0.5),
            "num_results": config.get("num_results", 10),
            "num_top_articles": config.get("top_n_articles", 3),
        }


@NODES.register("OfflineWikiApiPartialArticle")
class OfflineWikiApiPartialArticleNode(_CountedWikiNode):
    """Outputs summaries of articles from a local Wikipedia service, with their titles."""

    KIND = PARTIAL

    def numbers(self, config: NodeConfig) -> WikiQuery:
        return {"percentile": config.get("percentile", 0.5), "num_results": config.get("num_results", 1)}
