"""EmbeddingService: from the name of an embeddings endpoint to vectors. One attempt at each of its addresses,
no backup. Source: spec backends.md 9.7, prompt-reuse.md 7."""

from __future__ import annotations

import logging

from Middleware.common.errors import BackendError, ConfigError, RequestCancelled, SlotTimeout
from Middleware.config.endpoints import load_endpoint
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings
from Middleware.llmapis.addresses import AddressRoute, ChatAsker
from Middleware.llmapis.failover import take_slots
from Middleware.llmapis.handlers import impl
from Middleware.llmapis.handlers.backends import backend_of
from Middleware.llmapis.handlers.base.base_llm_api_handler import HandlerSettings
from Middleware.llmapis.handlers.impl.embedding_api_handler import EmbeddingBackend, Vector
from Middleware.llmapis.llm_api import current_id, current_snapshot, current_user, settings_at, timeouts
from Middleware.llmapis.script_calls import calling_node
from Middleware.services.run_trace import TracedNode

_ = impl  # importing the package fills the table of backends

logger = logging.getLogger(__name__)

BATCH_SIZE = 64
READ_TIMEOUT_S = 120.0


class EmbeddingService:
    """One embeddings endpoint. `user` and `snapshot` None: as for `LlmApiService`. `trace`: the node that
    asks, None: the one whose script does, if anybody observes.

    Raises ConfigError (also ConfigMissing) for an endpoint that is missing or not for embeddings.
    """

    def __init__(
        self,
        endpoint_name: str,
        *,
        user: UserSettings | None = None,
        snapshot: ConfigSnapshot | None = None,
        trace: TracedNode | None = None,
    ) -> None:
        self._trace = trace if trace is not None else calling_node()
        snapshot = snapshot if snapshot is not None else current_snapshot()
        user = self._user = user if user is not None else current_user(snapshot)
        endpoint = self.endpoint = load_endpoint(snapshot, user, endpoint_name)
        handler_class = backend_of(endpoint)
        if not issubclass(handler_class, EmbeddingBackend):
            message = f"endpoint '{endpoint_name}' ({endpoint.type}) is not for embeddings"
            raise ConfigError(message, file=endpoint.file)
        connect_s, read_s = timeouts(endpoint, user, READ_TIMEOUT_S)
        self.handler = handler_class(
            HandlerSettings(
                endpoint=endpoint,
                api_key=endpoint.api_key,
                headers=endpoint.extra_headers,
                suppress_retries=True,
                connect_timeout_s=connect_s,
                read_timeout_s=read_s,
            )
        )

    def get_embeddings(self, texts: list[str], request_id: str | None = None) -> list[Vector] | None:
        """One vector for each text, in order; `[]` for no texts, without a call; None when the request was
        cancelled.

        Asks for at most BATCH_SIZE texts at a time. Raises BackendError, and ValueError for an unusable
        answer."""
        request_id = request_id or current_id()
        vectors: list[Vector] = []
        for start in range(0, len(texts), BATCH_SIZE):
            part = self._batch(texts[start : start + BATCH_SIZE], request_id)
            if part is None:
                return None
            vectors += part
        if len({len(vector) for vector in vectors}) > 1:
            raise ValueError("the vectors have different lengths")
        return vectors

    def _batch(self, texts: list[str], request_id: str | None) -> list[Vector] | None:
        if len(self.endpoint.addresses) > 1:
            return self._batch_of_several(texts, request_id)
        try:
            slots = take_slots(self.endpoint, request_id, whole_process=False, trace=self._trace)
        except RequestCancelled:
            return None
        try:
            return self.handler.embed(texts, request_id, self._trace)
        finally:
            slots.close()

    def _batch_of_several(self, texts: list[str], request_id: str | None) -> list[Vector] | None:
        """The same from one of several addresses, or the next when that one fails."""
        route = AddressRoute(self.endpoint, ChatAsker(self._user.name, texts[0]))
        while True:
            try:
                slots = take_slots(
                    self.endpoint, request_id, whole_process=False, choose=route.next_stop, trace=self._trace
                )
                with slots:
                    stop = route.stop
                    handler = type(self.handler)(settings_at(self.handler.settings, stop))
                    vectors = handler.embed(texts, request_id, self._trace)
                    stop.note_answer()
                    return vectors
            except RequestCancelled:
                return None
            except SlotTimeout:
                raise
            except BackendError as error:
                if not route.goes_on_after(error):
                    raise
                logger.warning("%s; asking another address of it", error)
