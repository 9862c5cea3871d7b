"""The slices of a conversation: which messages, in which form, within which budget."""

from __future__ import annotations

import logging

import pytest

from Middleware.services.steady_paragraphs import SystemParts
from Middleware.utilities.steady_window import SteadyWindow
from Middleware.utilities.text_utils import estimate_message_tokens
from Middleware.workflows.variables.conversation import tool_call_labels, with_tool_text
from Middleware.workflows.variables.providers import VARIABLES, Layer
from Middleware.workflows.variables.workflow_variable_manager import fill

TEMPLATE = {
    "promptTemplateUserPrefix": "<u>",
    "promptTemplateUserSuffix": "</u>",
    "promptTemplateAssistantPrefix": "<a>",
    "promptTemplateAssistantSuffix": "</a>",
    "promptTemplateSystemPrefix": "<s>",
    "promptTemplateSystemSuffix": "</s>",
}


def chat(*contents, role="user"):
    """A conversation of messages with one role."""
    return [{"role": role, "content": content} for content in contents]


class TestVectors:
    """workflows.md 14, V1 - V6."""

    @pytest.mark.parametrize(
        ("is_chat", "node", "text", "result"),
        [
            pytest.param(True, {}, "{chat_user_prompt_last_three}", "a1\nS1\nu2", id="V1"),
            pytest.param(False, {}, "{chat_user_prompt_last_three}", "u1 {x}\na1\nu2", id="V2"),
            pytest.param(True, {}, "{templated_user_prompt_last_three}", "u1 {x}a1u2", id="V3"),
            pytest.param(True, {}, "{chat_system_prompt}", "S0", id="V4"),
            pytest.param(False, {}, "{chat_system_prompt}", "S0 S1", id="V5"),
            pytest.param(True, {"addUserAssistantTags": True}, "{chat_user_prompt_last_three}",
                         "Assistant: a1\nSystem: S1\nUser: u2", id="V6"),
        ],
    )  # fmt: skip
    def test_vector(self, is_chat, node, text, result, make_source, make_model):
        """The slices of the specification's conversation."""
        assert fill(text, make_source(node=node, llm_handler=make_model(chat=is_chat))) == result

    def test_without_a_model_the_node_counts_as_chat(self, make_source):
        """Text tools have no endpoint."""
        assert fill("{chat_user_prompt_last_three}", make_source()) == "a1\nS1\nu2"


class TestForms:
    @pytest.mark.parametrize(
        ("name", "result"),
        [
            ("templated_user_prompt_last_three", "<u>u1 {x}</u><a>a1</a><u>u2</u>"),
            ("templated_user_prompt_last_two", "<a>a1</a><u>u2</u>"),
            ("templated_user_prompt_without_system", "<u>u1 {x}</u><a>a1</a><u>u2</u>"),
            ("chat_user_prompt_without_system", "(u1 {x})a1(u2)"),
            ("templated_system_prompt", "<s>S0 S1</s>"),
            ("chat_system_prompt", "[S0 S1]"),
            ("chat_user_prompt_last_two", "a1\nu2"),
        ],
    )
    def test_completions(self, name, result, make_source, make_model):
        """`templated_*` take the endpoint's template, `chat_*` the user's; marks are deleted."""
        endpoint = make_model(template={**TEMPLATE, "promptTemplateUserPrefix": "[Beg_User]<u>"})
        user = {
            "promptTemplateUserPrefix": "(",
            "promptTemplateUserSuffix": ")",
            "promptTemplateSystemPrefix": "[[Beg_Sys]",
            "promptTemplateSystemSuffix": "]",
        }
        assert fill(f"{{{name}}}", make_source(llm_handler=endpoint, user_template=user)) == result

    def test_a_final_assistant_turn_is_left_open(self, make_source, make_model):
        """Its suffix would end the turn that the model is to go on with."""
        source = make_source(
            llm_handler=make_model(template=TEMPLATE), messages=[*chat("u"), *chat("a", role="assistant")]
        )
        assert fill("{templated_user_prompt_last_two}", source) == "<u>u</u><a>a"

    @pytest.mark.parametrize(
        ("name", "result"),
        [
            ("chat_user_prompt_without_system", "u1 {x}a1u2"),
            ("templated_user_prompt_without_system", "u1 {x}a1u2"),
            ("templated_system_prompt", "S0"),
        ],
    )
    def test_chat_models_get_bare_texts(self, name, result, make_source, make_model):
        """No template is used, whatever the files say."""
        assert (
            fill(f"{{{name}}}", make_source(llm_handler=make_model(chat=True, template=TEMPLATE))) == result
        )

    def test_the_user_can_choose_the_separator(self, make_source):
        """Only while the flag is on."""
        separated = {
            "separate_conversation_in_variables": True,
            "conversation_separation_delimiter": "\n--\n",
        }
        assert fill("{chat_user_prompt_last_two}", make_source(user=separated)) == "S1\n--\nu2"
        assert (
            fill("{chat_user_prompt_last_two}", make_source(user={"conversation_separation_delimiter": "#"}))
            == "S1\nu2"
        )

    def test_memory_nodes_drop_every_system_message(self, make_source):
        """Whatever the model is."""
        assert fill("{chat_user_prompt_last_three}", make_source(drop_all_system=True)) == "u1 {x}\na1\nu2"

    def test_all_system_messages_are_kept_when_there_is_nothing_else(self, make_source):
        """Only the chat form; templated text never holds one."""
        source = make_source(messages=chat("S0", "S1", role="system"))
        assert (
            fill(
                "{chat_user_prompt_last_five}|{templated_user_prompt_last_five}|{chat_system_prompt}", source
            )
            == "S0\nS1||S0 S1"
        )

    def test_other_roles_have_no_tag(self, make_source):
        """Tools do."""
        messages = [*chat("r", role="tool"), *chat("f", role="function")]
        source = make_source(messages=messages, node={"addUserAssistantTags": True})
        assert fill("{chat_user_prompt_last_two}", source) == "Tool Result: r\nf"

    def test_without_messages_the_names_do_not_exist(self, make_source):
        """They stay as text; `messages` is an empty list."""
        text = "{chat_user_prompt_last_one} {chat_system_prompt} {messages}"
        assert fill(text, make_source(messages=[])) == "{chat_user_prompt_last_one} {chat_system_prompt} []"

    @pytest.mark.parametrize("jinja", [False, True], ids=["format", "jinja"])
    @pytest.mark.parametrize("chat_model", [True, False], ids=["chat", "flat"])
    @pytest.mark.parametrize(
        "name", [name for name, known in VARIABLES.items() if known.layer is Layer.CONVERSATION]
    )
    def test_of_a_blank_question_they_are_empty(self, name, chat_model, jinja, make_source, make_model):
        """It is left out of the messages, but it was asked."""
        node, text = {"jinja2": jinja}, f"<{{{{ {name} }}}}>" if jinja else f"<{{{name}}}>"
        model = make_model(chat=chat_model)
        source = make_source(messages=[], has_conversation=True, node=node, llm_handler=model)
        assert fill(text, source) == "<>"


class TestTheFrontOfAChat:
    """prompt-reuse.md 2.1. Which paragraphs are steady is decided for the whole request, not here."""

    @pytest.mark.parametrize("jinja", [False, True], ids=["format", "jinja"])
    @pytest.mark.parametrize("chat_model", [True, False], ids=["chat", "flat"])
    def test_both_parts(self, jinja, chat_model, make_source, make_model):
        """Bare for every model; one of completions gets what all system messages say."""
        asked = []

        def parts(everywhere):
            asked.append(everywhere)
            return SystemParts("Card {x}.", "Lore.")

        names = ["chat_system_prompt_steady", "chat_system_prompt_changed"]
        text = "|".join(f"{{{{ {name} }}}}" if jinja else f"{{{name}}}" for name in names)
        source = make_source(
            node={"jinja2": jinja},
            llm_handler=make_model(chat=chat_model),
            user_template={"promptTemplateSystemPrefix": "<s>"},
            system_parts=parts,
        )
        assert fill(text, source) == "Card {x}.|Lore."
        assert set(asked) == {not chat_model}

    @pytest.mark.parametrize(("chat_model", "text"), [(True, "S0"), (False, "S0\n\nS1")])
    def test_a_first_turn(self, chat_model, text, make_source, make_model):
        """Where nobody decides it, all is steady."""
        source = make_source(llm_handler=make_model(chat=chat_model))
        assert fill("{chat_system_prompt_steady}|{chat_system_prompt_changed}", source) == f"{text}|"


TEN = "x " * 10  # 14 tokens


class TestWindows:
    @pytest.mark.parametrize(
        ("node", "name", "result"),
        [
            pytest.param({}, "n_messages", "3 4 5 6 7", id="five-by-default"),
            pytest.param({"nMessagesToIncludeInVariable": 2}, "n_messages", "6 7", id="n-messages"),
            pytest.param({"nMessagesToIncludeInVariable": 0}, "n_messages", "", id="none"),
            pytest.param({"nMessagesToIncludeInVariable": -1}, "n_messages", "", id="a-negative-number-is-none"),
            pytest.param({"nMessagesToIncludeInVariable": True}, "n_messages", "3 4 5 6 7", id="a-bool-is-no-number"),
            pytest.param({}, "estimated_token_limit", "0 1 2 3 4 5 6 7", id="2048-by-default"),
            pytest.param({"estimatedTokensToIncludeInVariable": 42}, "estimated_token_limit", "5 6 7", id="exactly-three"),
            pytest.param({"estimatedTokensToIncludeInVariable": 41}, "estimated_token_limit", "6 7", id="not-quite-three"),
            pytest.param({"estimatedTokensToIncludeInVariable": 1}, "estimated_token_limit", "7", id="the-newest-always"),
            pytest.param({"minMessagesInVariable": 2, "maxEstimatedTokensInVariable": 1}, "min_n_max_tokens", "6 7", id="the-minimum"),
            pytest.param({"minMessagesInVariable": 1, "maxEstimatedTokensInVariable": 56}, "min_n_max_tokens", "4 5 6 7", id="more-than-the-minimum"),
            pytest.param({"minMessagesInVariable": 0, "maxEstimatedTokensInVariable": 1}, "min_n_max_tokens", "7", id="the-newest-at-least"),
            pytest.param({}, "last_one", "7", id="one"),
            pytest.param({}, "last_twenty", "0 1 2 3 4 5 6 7", id="twenty"),
        ],
    )  # fmt: skip
    def test_which_messages(self, node, name, result, make_source):
        """Eight messages of 14 tokens each, told apart by their last character."""
        messages = chat(*(f"{TEN}"[:-1] + str(n) for n in range(8)))
        assert all(estimate_message_tokens(message["content"]) == 14 for message in messages)
        shown = fill(f"{{chat_user_prompt_{name}}}", make_source(node=node, messages=messages))
        assert " ".join(line[-1] for line in shown.splitlines()) == result

    def test_a_brace_counts_as_eighteen_characters(self, make_source):
        """So the windows end where the peer's do."""
        messages = chat("{}" * 10, "hi")
        node = {"estimatedTokensToIncludeInVariable": 100}
        assert (
            fill("{chat_user_prompt_estimated_token_limit}", make_source(node=node, messages=messages))
            == "hi"
        )

    def test_only_the_tail_is_looked_at(self, make_source):
        """A long conversation costs no more than a short one."""

        class Counting(list):
            reads = 0

            def __getitem__(self, index):
                Counting.reads += 1
                return super().__getitem__(index)

        source = make_source(messages=Counting(chat(*("x" * 400 for _ in range(2000)))))
        fill("{chat_user_prompt_estimated_token_limit}", source)
        assert Counting.reads < 30


CALL = {"role": "assistant", "content": "c", "tool_calls": [{"id": "1", "function": {"name": "f"}}]}
EXCHANGE = [*chat("old", "q"), CALL, {"role": "tool", "content": f"{TEN}r", "tool_call_id": "1"}]
TINY = {
    "estimatedTokensToIncludeInVariable": 1,
    "maxEstimatedTokensInVariable": 1,
    "minMessagesInVariable": 1,
}


class TestToolExchanges:
    """backends.md 13.4: no token budget cuts the question from what its tools said."""

    @pytest.mark.parametrize("clamp", [False, True], ids=["no-clamp", "clamp"])
    @pytest.mark.parametrize("kind", ["chat", "templated"])
    @pytest.mark.parametrize("name", ["estimated_token_limit", "min_n_max_tokens"])
    def test_limits_of_tokens(self, name, kind, clamp, make_source):
        """Whatever it costs, and nothing older."""
        node = {**TINY, "clampPromptToContextWindow": clamp}
        shown = fill(f"{{{kind}_user_prompt_{name}}}", make_source(node=node, messages=EXCHANGE))
        assert shown.replace("\n", "") == f"qc{TEN}r"

    def test_the_clamp(self, make_source, make_model):
        """The window of the model cuts older messages only."""
        node = {"clampPromptToContextWindow": True}
        model = make_model(chat=True, maxContextTokenSize=920)
        source = make_source(node=node, messages=EXCHANGE, llm_handler=model)
        assert fill("{chat_user_prompt_last_ten}", source) == f"q\nc\n{TEN}r"

    def test_a_number_of_messages_is_exact(self, make_source):
        """It asks for messages, not for room."""
        assert fill("{chat_user_prompt_last_one}", make_source(messages=EXCHANGE)) == f"{TEN}r"


# with 400 tokens of response: int((1242 - 400) * 1.0) - 512 = 330, three messages
WINDOW = {"maxContextTokenSize": 1242}


class TestClamp:
    MESSAGES = chat(*(f"{'x' * 349}{n}" for n in range(9)))  # 110 tokens each

    def shown(self, make_source, make_model, name, *, node=None, endpoint=None, user=None):
        model = make_model(chat=True, **(endpoint or {}))
        source = make_source(node=node or {}, user=user, llm_handler=model, messages=self.MESSAGES)
        return "".join(line[-1] for line in fill(f"{{chat_user_prompt_{name}}}", source).splitlines())

    @pytest.mark.parametrize(
        ("name", "node", "endpoint", "result"),
        [
            pytest.param("last_five", {}, WINDOW, "678", id="last-n-is-cut-to-the-window"),
            pytest.param("last_two", {}, WINDOW, "78", id="last-n-within-the-window"),
            pytest.param("last_ten", {}, {}, "012345678", id="no-window-known"),
            pytest.param("last_ten", {}, {"maxContextTokenSize": True}, "012345678", id="a-bool-is-no-window"),
            pytest.param("last_ten", {}, {"maxContextTokenSize": 0}, "012345678", id="zero-is-no-window"),
            pytest.param("last_five", {"maxResponseSizeInTokens": 620}, WINDOW, "8", id="the-response-takes-room"),
            pytest.param("last_five", {"maxResponseSizeInTokens": "many"}, WINDOW, "45678", id="a-bad-response-size-is-none"),
            pytest.param("last_five", {"maxResponseSizeInTokens": -9}, WINDOW, "45678", id="a-negative-response-size-is-none"),
            pytest.param("last_five", {}, {**WINDOW, "wilmerContextEstimationLevel": "balanced"}, "5678", id="a-level-stretches-the-window"),
            pytest.param("estimated_token_limit", {}, WINDOW, "678", id="token-limit-not-above-the-window"),
            pytest.param("estimated_token_limit", {"estimatedTokensToIncludeInVariable": 220}, WINDOW, "78", id="token-limit-below-the-window"),
            pytest.param("estimated_token_limit", {"estimatedTokensToIncludeInVariable": 220}, {"wilmerContextEstimationLevel": " Aggressive"}, "678", id="token-limit-is-stretched"),
            pytest.param("min_n_max_tokens", {}, WINDOW, "678", id="the-minimum-gives-way"),
            pytest.param("min_n_max_tokens", {"maxEstimatedTokensInVariable": 1}, WINDOW, "8", id="the-newest-is-kept"),
        ],
    )  # fmt: skip
    def test_budgets(self, name, node, endpoint, result, make_source, make_model):
        """What the window leaves for the conversation."""
        node = {"clampPromptToContextWindow": True, **node}
        assert self.shown(make_source, make_model, name, node=node, endpoint=endpoint) == result

    @pytest.mark.parametrize(
        ("node", "endpoint", "user", "result"),
        [
            pytest.param(None, None, False, "45678", id="off-by-default"),
            pytest.param(None, None, True, "678", id="user"),
            pytest.param(None, False, True, "45678", id="endpoint-beats-user"),
            pytest.param("yes", False, False, "678", id="node-beats-endpoint"),
            pytest.param("off", True, True, "45678", id="node-says-no"),
        ],
    )
    def test_who_decides(self, node, endpoint, user, result, make_source, make_model):
        """Node, then endpoint, then user: the first that says something."""
        shown = self.shown(
            make_source,
            make_model,
            "last_five",
            node={"clampPromptToContextWindow": node},
            endpoint={**WINDOW, "clampPromptToContextWindow": endpoint},
            user={"clamp_prompt_to_context_window": user},
        )
        assert shown == result

    def test_an_unknown_level_is_reported(self, make_source, make_model, caplog):
        """And counts as conservative."""
        endpoint = {**WINDOW, "wilmerContextEstimationLevel": "wild"}
        node = {"clampPromptToContextWindow": True}
        with caplog.at_level(logging.WARNING):
            assert self.shown(make_source, make_model, "last_five", node=node, endpoint=endpoint) == "678"
        assert "'wild' counts as 'conservative'" in caplog.text


def call(name, arguments, call_id="c1"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


class TestToolCalls:
    def test_calls_and_results_become_text(self, make_source):
        """The slices show them; system text and `messages` do not change."""
        messages = [
            *chat("Weather?"),
            {
                "role": "assistant",
                "content": "Let me look.",
                "tool_calls": [call("look", '{"days": 2, "town": "Rome"}')],
            },
            {"role": "tool", "content": "sunny {}", "tool_call_id": "c1"},
        ]
        source = make_source(messages=messages, node={"includeToolCallsInConversation": True})
        shown = "Weather?\nLet me look.\n[Tool Call: look] Rome\n[Tool Result: look Rome] sunny {}"
        assert fill("{chat_user_prompt_last_five}", source) == shown
        assert fill("{chat_user_prompt_without_system}", source) == shown.replace("\nLet", "Let").replace(
            "\n[Tool Result", "[Tool Result"
        )
        assert fill("{messages[1][content]}", source) == "Let me look."

    @pytest.mark.parametrize(
        ("message", "content"),
        [
            pytest.param({"tool_calls": [call("f", '{"a": "x"}'), call("g", "{}")]}, "[Tool Call: f] x\n[Tool Call: g] {}", id="two-calls-alone"),
            pytest.param({"tool_calls": [call("f", {"n": 1, "a": "x"})]}, "[Tool Call: f] x", id="an-object"),
            pytest.param({"tool_calls": [call("f", {"n": 1})]}, '[Tool Call: f] {"n": 1}', id="an-object-without-text"),
            pytest.param({"tool_calls": [call("f", "not json")]}, "[Tool Call: f] not json", id="no-json"),
            pytest.param({"tool_calls": [call("f", "[1]")]}, "[Tool Call: f] [1]", id="no-object"),
            pytest.param({"tool_calls": [call(None, None)]}, "[Tool Call: unknown]", id="nothing"),
            pytest.param({"tool_calls": [{"id": "c", "function": "f"}]}, "[Tool Call: unknown]", id="no-function"),
            pytest.param({"tool_calls": [call("f", "x" * 300)]}, f"[Tool Call: f] {'x' * 200}", id="cut-at-200"),
            pytest.param({"tool_calls": []}, "", id="no-calls"),
            pytest.param({"role": "tool", "tool_call_id": "k", "content": "r"}, "[Tool Result: find cat] r", id="a-known-result"),
            pytest.param({"role": "tool", "name": "n", "content": "r"}, "[Tool Result: n] r", id="a-named-result"),
            pytest.param({"role": "tool", "tool_call_id": "?", "content": "r"}, "[Tool Result: unknown_tool] r", id="an-unknown-result"),
            pytest.param({"role": "user", "tool_calls": [call("f", "x")], "content": "u"}, "u", id="only-assistants-call"),
        ],
    )  # fmt: skip
    def test_texts(self, message, content):
        """Of each message alone."""
        message = {"role": "assistant", "content": "", **message}
        assert with_tool_text(message, {"k": "find cat"})["content"] == content

    def test_labels(self):
        """A result is named after its call."""
        messages = [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [call("f", '{"a": "x"}', "1"), call("g", None, "2"), call("h", None, "")],
            }
        ]
        assert tool_call_labels([*messages, *chat("u")]) == {"1": "f x", "2": "g"}


THIRTY = SteadyWindow(30)
LONG = [{"role": ("user", "assistant")[n % 2], "content": f"{'ua'[n % 2]}{n // 2}"} for n in range(61)]


class TestSteadySlices:
    """Slices in the prompts of a model that stand (prompt-reuse.md 1)."""

    def first(self, make_source, name, messages=None, node=None, steady=THIRTY, model=None):
        source = make_source(
            messages=LONG if messages is None else messages,
            node=node or {},
            steady=steady,
            llm_handler=model,
        )
        return fill(f"{{{name}}}", source).splitlines()[0]

    @pytest.mark.parametrize(
        ("name", "exact", "steady"),
        [
            ("chat_user_prompt_last_ten", "a25", "u22"),
            ("chat_user_prompt_last_five", "u28", "u27"),
            ("chat_user_prompt_n_messages", "u28", "u27"),
            ("chat_user_prompt_last_four", "a28", "a28"),
            ("chat_user_prompt_last_one", "u30", "u30"),
        ],
    )
    def test_of_five_messages_or_more(self, name, exact, steady, make_source):
        """Fewer are a question, not context."""
        assert self.first(make_source, name, steady=None) == exact
        assert self.first(make_source, name, steady=SteadyWindow(15 if "ten" not in name else 30)) == steady

    def test_a_number_of_the_node_that_is_small_is_exact(self, make_source):
        """As the names are."""
        node = {"nMessagesToIncludeInVariable": 4}
        assert self.first(make_source, "chat_user_prompt_n_messages", node=node) == "a28"

    def test_templated_ones_stand_too(self, make_source):
        """The same messages."""
        source = make_source(messages=LONG, steady=THIRTY)
        assert fill("{templated_user_prompt_last_ten}", source).startswith("u22a22u23")

    @pytest.mark.parametrize("name", ["estimated_token_limit", "min_n_max_tokens"])
    def test_of_tokens(self, name, make_source):
        """What is left begins at the same message, also where the client has dropped older ones."""
        node = {
            "estimatedTokensToIncludeInVariable": 30,
            "maxEstimatedTokensInVariable": 30,
            "minMessagesInVariable": 6,
        }
        exact = self.first(make_source, f"chat_user_prompt_{name}", node=node, steady=None)
        steady = self.first(make_source, f"chat_user_prompt_{name}", node=node)
        cut = self.first(make_source, f"chat_user_prompt_{name}", LONG[20:], node)

        assert (steady == cut, steady.startswith("u")) == (True, True)
        assert int(exact[1:]) <= int(steady[1:]) <= 28

    def test_the_minimum_is_kept(self, make_source):
        """A slice of at least so many messages never begins behind them."""
        node = {"maxEstimatedTokensInVariable": 30, "minMessagesInVariable": 29}
        source = make_source(messages=LONG, node=node, steady=THIRTY)
        assert len(fill("{chat_user_prompt_min_n_max_tokens}", source).splitlines()) >= 29

    def test_messages_first_then_the_window(self, make_source, make_model):
        """With the clamp; what fits is not moved again."""
        node = {"clampPromptToContextWindow": True}
        talk = [{**message, "content": f"{message['content']} {'x' * 340}"} for message in LONG]
        whole, cut = (make_model(chat=True, maxContextTokenSize=size) for size in (90_000, 1800))
        name = "chat_user_prompt_last_ten"

        unclamped = self.first(make_source, name, talk)
        assert self.first(make_source, name, talk, node, model=whole) == unclamped
        source = make_source(messages=talk, node=node, steady=THIRTY, llm_handler=cut)
        lines = fill(f"{{{name}}}", source).splitlines()
        assert 4 <= len(lines) <= 8 and lines[0].startswith("u")

    def test_nothing_old_is_looked_at(self, make_source):
        """However long the chat is."""

        class Counting(list):
            reads = 0

            def __getitem__(self, index):
                Counting.reads += 1
                return super().__getitem__(index)

        source = make_source(messages=Counting(chat(*("x" for _ in range(2000)))), steady=THIRTY)
        fill("{chat_user_prompt_last_ten}", source)
        assert Counting.reads < 100
