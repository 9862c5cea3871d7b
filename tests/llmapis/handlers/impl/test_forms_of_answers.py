"""By which fields each backend's answers are known: one of them is enough, streamed or whole, and with a good type alone."""

from __future__ import annotations

import pytest

FORMS = {
    "ollamaApiChat": [{"message": {}}, {"done": True}, {"done": False}],
    "ollamaApiGenerate": [{"response": ""}, {"done": True}, {"done": False}],
    "openAIChatCompletion": [{"choices": []}],
    "openAIV1Completion": [{"choices": []}],
    "koboldCppGenerate": [{"token": ""}, {"finish_reason": ""}, {"results": []}],
    "claudeMessages": [
        {"content": []},
        {"type": "message_start"},
        {"type": "content_block_start"},
        {"type": "content_block_delta"},
        {"type": "content_block_stop"},
        {"type": "message_delta"},
        {"type": "message_stop"},
        {"type": "ping"},
    ],
}
STRANGE = [
    {},
    {"message": "no"},
    {"done": "yes"},
    {"response": None},
    {"choices": None},
    {"token": 1},
    {"finish_reason": None},
    {"results": {}},
    {"content": "no"},
    {"type": "other"},
    {"type": 1},
]


@pytest.mark.parametrize(
    ("kind", "body"), [(kind, body) for kind, bodies in FORMS.items() for body in bodies]
)
def test_a_form_of_its_own(make_handler, kind, body):
    """Beside it anything may stand."""
    assert make_handler(kind)._is_answer({**body, "remark": "x"})


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("body", STRANGE, ids=str)
def test_a_field_of_another_type_is_none(make_handler, kind, body):
    """Its words are an error's."""
    assert not make_handler(kind)._is_answer(body)


@pytest.mark.parametrize(
    ("kind", "other"),
    [
        ("ollamaApiChat", {"response": "", "choices": [], "token": ""}),
        ("ollamaApiGenerate", {"message": {}, "choices": [], "token": ""}),
        ("openAIChatCompletion", {"message": {}, "response": "", "done": True, "content": []}),
        ("openAIV1Completion", {"message": {}, "response": "", "done": True, "content": []}),
        ("koboldCppGenerate", {"choices": [], "message": {}, "done": True, "content": []}),
        ("claudeMessages", {"choices": [], "message": {}, "done": True, "token": ""}),
    ],
)
def test_the_form_of_another_backend_is_none(make_handler, kind, other):
    """The endpoint has the wrong API type: that is said instead of an empty answer."""
    assert not make_handler(kind)._is_answer(other)
