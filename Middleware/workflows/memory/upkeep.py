"""What the maintenance command does with vector memories: counts them, and gives vectors to those that lack
one.

Source: spec memory.md 15.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from Middleware.common.errors import BackendError, ConfigError
from Middleware.common.request_context import RequestContext
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings
from Middleware.llmapis.embedding_service import EmbeddingService
from Middleware.services.discussion_store import DiscussionStore
from Middleware.workflows.memory.file_writer import Told
from Middleware.workflows.memory.settings import FILE_SETTING, SettingsFile, backfill_size, settings_file
from Middleware.workflows.memory.vector_store import VectorDatabase
from Middleware.workflows.models.execution_context import ExecutionContext

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# Vectors for memories, in batches that one bad text cannot spoil. Source: spec memory.md 8.6, 18.4 (6).


Vector = list[float]
Embed = Callable[[list[str]], list[Vector] | None]
"""Texts to vectors; None: the request was cancelled. Raises BackendError, ValueError."""

BATCH_TEXTS = 64
BATCH_BYTES = 200_000


def batches(texts: Sequence[str]) -> Iterator[range]:
    """Places of texts that go into one call: at most 64, and 200 kB unless a single text is longer."""
    start, size = 0, 0
    for index, text in enumerate(texts):
        length = len(text.encode("utf-8", "replace"))
        if index > start and (index - start >= BATCH_TEXTS or size + length > BATCH_BYTES):
            yield range(start, index)
            start, size = index, 0
        size += length
    if start < len(texts):
        yield range(start, len(texts))


def embed_texts(texts: Sequence[str], embed: Embed) -> dict[int, Vector]:
    """Vectors by place in `texts`; texts that the backend refuses are missing, and so is what comes after a
    cancellation. Raises what `embed` raised if not a single text got a vector.
    """
    found: dict[int, Vector] = {}
    failure: Exception | None = None
    for places in batches(texts):
        try:
            if not _batch(texts, places, embed, found):
                break
        except (BackendError, ValueError) as error:
            failure = error
            logger.warning("%d texts got no vector: %s", len(places), error)
    if failure is not None and not found:
        raise failure
    return found


def _batch(texts: Sequence[str], places: Sequence[int], embed: Embed, found: dict[int, Vector]) -> bool:
    """Embed one batch; a failing one is halved once, and the half that fails then goes text by text."""
    try:
        return _call(texts, places, embed, found)
    except (BackendError, ValueError):
        if len(places) == 1:
            raise
    middle = len(places) // 2
    failed: list[Sequence[int]] = []
    failure: Exception | None = None
    for half in (places[:middle], places[middle:]):
        try:
            if not _call(texts, half, embed, found):
                return False
        except (BackendError, ValueError) as error:
            failed.append(half)
            failure = error
    if failure is None:
        return True
    if len(failed) > 1 or len(failed[0]) == 1:
        raise failure
    return _one_by_one(texts, failed[0], embed, found)


def _one_by_one(texts: Sequence[str], places: Sequence[int], embed: Embed, found: dict[int, Vector]) -> bool:
    for place in places:
        try:
            if not _call(texts, [place], embed, found):
                return False
        except (BackendError, ValueError) as error:
            logger.warning("a text got no vector: %s", error)
    return True


def _call(texts: Sequence[str], places: Sequence[int], embed: Embed, found: dict[int, Vector]) -> bool:
    vectors = embed([texts[place] for place in places])
    if vectors is None:
        return False
    found.update(zip(places, vectors, strict=True))
    return True


def embed_new(
    context: ExecutionContext, store: DiscussionStore, settings: SettingsFile, new: dict[int, str]
) -> None:
    """Vectors for the memories just stored and for some older ones that have none."""
    endpoint = settings.text("embeddingEndpointName")
    if not endpoint or not new:
        return
    service, database = context.embeddings(endpoint), VectorDatabase(store)
    model = model_name(service)
    older = database.without_vector(model, backfill_size(settings), new)
    save_embedded(
        database, model, [*new.items(), *older], lambda t: service.get_embeddings(t, context.request_id)
    )


def model_name(service: EmbeddingService) -> str:
    """The name under which vectors are kept: the model's, else the endpoint's."""
    return service.endpoint.model or service.endpoint.name


def save_embedded(database: VectorDatabase, model: str, rows: Sequence[tuple[int, str]], embed: Embed) -> int:
    """Embed and store memories (id, text); how many got a vector."""
    vectors = embed_texts([text for _, text in rows], embed)
    database.save_vectors(model, {rows[place][0]: vector for place, vector in vectors.items()})
    return len(vectors)


# --------------------------------------------------------------------------

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
            "no settings file is set", file=f"Users/{user.name}.json", pointer=f"/{FILE_SETTING}"
        )
    settings = settings_file(snapshot, user, name)
    endpoint = settings.text("embeddingEndpointName")
    if not endpoint:
        raise ConfigError(
            "an endpoint is required here", file=settings.name, pointer="/embeddingEndpointName"
        )
    return EmbeddingService(endpoint, user=user, snapshot=snapshot)


def embedder(user: UserSettings, request: RequestContext) -> Callable[[str], dict[str, Vector]]:
    """What makes the vector of a text, by its model; of a user whose settings name no endpoint for it, none.

    The call raises BackendError, ValueError.
    """

    def embed(text: str) -> dict[str, Vector]:
        try:
            service = embeddings_endpoint(user, request)
        except ConfigError:
            return {}
        vectors = service.get_embeddings([text])
        return {model_name(service): vectors[0]} if vectors else {}

    return embed


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
