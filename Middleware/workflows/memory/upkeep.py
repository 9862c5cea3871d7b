"""What the maintenance command does with vector memories: counts them, and gives vectors to those that lack
one.

Source: spec memory.md 15.
"""

from __future__ import annotations

import logging

from Middleware.common.errors import BackendError, ConfigError
from Middleware.common.request_context import RequestContext
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings
from Middleware.llmapis.embedding_service import EmbeddingService
from Middleware.services.discussion_store import DiscussionStore
from Middleware.workflows.memory.embedding import BATCH_TEXTS, model_name, save_embedded
from Middleware.workflows.memory.progress import Told
from Middleware.workflows.memory.settings import FILE_SETTING, settings_file
from Middleware.workflows.memory.vector_store import VectorDatabase

logger = logging.getLogger(__name__)

_FAILURES = 3
"""After so many batches in a row that gave no vector the endpoint is given up."""
_ALL = 2**31


def vector_count(store: DiscussionStore) -> int:
    """How many vector memories a discussion has."""
    return VectorDatabase(store).count()


def embeddings_endpoint(user: UserSettings, request: RequestContext) -> EmbeddingService:
    """The endpoint that the user's memory settings name. Raises ConfigError."""
    snapshot, name = request.snapshot, user.discussion_id_memory_file_workflow_settings
    if not name or not isinstance(snapshot, ConfigSnapshot):
        raise ConfigError(
            "no settings file is named", file=f"Users/{user.name}.json", pointer=f"/{FILE_SETTING}"
        )
    settings = settings_file(snapshot, user, name)
    endpoint = settings.text("embeddingEndpointName")
    if not endpoint:
        raise ConfigError("an endpoint is needed here", file=settings.name, pointer="/embeddingEndpointName")
    return EmbeddingService(endpoint, user=user, snapshot=snapshot)


def count_lacking(store: DiscussionStore, service: EmbeddingService) -> int:
    """How many memories have no vector of the endpoint's model."""
    if not vector_count(store):
        return 0
    return VectorDatabase(store).count_lacking(model_name(service))


def backfill(store: DiscussionStore, service: EmbeddingService, told: Told) -> int:
    """Give vectors to the memories that lack one, oldest first; how many still do."""
    database, model = VectorDatabase(store), model_name(service)
    rows = database.without_vector(model, _ALL)
    failures = done = 0
    for start in range(0, len(rows), BATCH_TEXTS):
        batch = rows[start : start + BATCH_TEXTS]
        try:
            done += save_embedded(database, model, batch, service.get_embeddings)
            failures = 0
        except (BackendError, ValueError) as error:
            logger.error("%d memories got no vector: %s", len(batch), error)
            failures += 1
            if failures == _FAILURES:
                break
        told(start + len(batch), len(rows))
    return len(rows) - done
