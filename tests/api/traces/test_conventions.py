"""Our words beside those of OpenTelemetry's own package, which comes with its SDK."""

from __future__ import annotations

import pytest

from Middleware.api.traces import conventions as words
from Middleware.llmapis.handlers.backends import BACKENDS

REASON = "the extra `otel` is not installed (`test` has it)"
PACKAGE = "opentelemetry.semconv._incubating.attributes"


def theirs(module):
    found = vars(pytest.importorskip(f"{PACKAGE}.{module}", reason=REASON))
    return {value for value in found.values() if isinstance(value, str)}


def ours(start):
    told = [*vars(words).values(), *words.REQUEST_NUMBERS.values()]
    return {word for word in told if isinstance(word, str) and word.startswith(start)}


def test_attributes_of_generative_ai():
    """Each of them is one of the conventions."""
    assert ours("gen_ai.") - theirs("gen_ai_attributes") == set()


def test_operations():
    """So are the words for what is done."""
    known = pytest.importorskip(f"{PACKAGE}.gen_ai_attributes", reason=REASON).GenAiOperationNameValues
    assert {words.INVOKE_WORKFLOW, words.CHAT, words.EMBEDDINGS, words.EXECUTE_TOOL} <= {
        one.value for one in known
    }


@pytest.mark.parametrize(
    ("module", "attribute"),
    [
        ("server_attributes", words.SERVER_ADDRESS),
        ("server_attributes", words.SERVER_PORT),
        ("error_attributes", words.ERROR_TYPE),
        ("http_attributes", words.STATUS_CODE),
    ],
)
def test_other_attributes(module, attribute):
    """And those that are older than generative AI."""
    assert attribute in theirs(module)


def test_every_backend_has_a_provider():
    """A new one is named here, too."""
    assert {name for name, _ in BACKENDS.items()} == words.PROVIDER_OF_TYPE.keys()
