"""Which prompt template the model of a node gets."""

from __future__ import annotations

import pytest

from Middleware.common.errors import ConfigMissing
from Middleware.config.users import UserSettings
from Middleware.llmapis.llm_api import LlmApiService
from Middleware.llmapis.llm_handler import LlmHandler

OWN, OF_USER = {"promptTemplateUserPrefix": "<own>"}, {"promptTemplateUserPrefix": "<user>"}
FLAT, CHAT = "OpenAI-Compatible-Completions", "Open-AI-API"


@pytest.fixture
def handler(configs):
    """`handler(api_type, bare=False, users=None, **endpoint)`; `users`: the template that the user names."""
    for name, template in (("own", OWN), ("of-user", OF_USER)):
        configs._write(f"PromptTemplates/{name}.json", template)

    def make(api_type, *, bare=False, users=None, **endpoint):
        configs.endpoint("E", "http://h:1", api_type, **endpoint)
        configs.user = UserSettings(name="u", chat_prompt_template_name=users or "")
        return LlmHandler.of(LlmApiService("E", None, 9, True, **configs.given()), bare=bare)

    return make


@pytest.mark.parametrize(
    ("own", "users", "template"),
    [("own", "of-user", OWN), ("own", None, OWN), (None, "of-user", OF_USER), (None, None, {})],
)
def test_the_endpoints_template_comes_first(handler, own, users, template):
    """Then the user's; without any the prompt has no marks."""
    made = handler(FLAT, users=users, promptTemplate=own)
    assert (made.prompt_template, made.takes_message_collection) == (template, False)


def test_messages_need_none(handler):
    """Their server has one. Nor does a text that is sent as it is."""
    assert handler(CHAT, promptTemplate="own").prompt_template == {}
    assert handler(FLAT, promptTemplate="own", bare=True).prompt_template == {}


def test_a_template_that_is_not_there(handler):
    with pytest.raises(ConfigMissing, match='no prompt template "gone"'):
        handler(FLAT, promptTemplate="gone")


@pytest.mark.parametrize("adds", [True, False])
def test_what_else_it_knows_of_its_endpoint(handler, adds):
    made = handler(CHAT, addGenerationPrompt=adds)
    facts = (made.llm_type, made.add_generation_prompt, made.takes_message_collection)
    assert facts == ("openAIChatCompletion", adds, True)
    assert made.llm.endpoint.name == "E"
