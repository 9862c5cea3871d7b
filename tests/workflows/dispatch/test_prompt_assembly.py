"""What a backend is sent for a node and a conversation: windows, merging, images, the clamp, flat prompts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from Middleware.llmapis.llm_handler import LlmHandler
from Middleware.workflows.dispatch.prompt_assembly import Clamp, Parts
from tests.counting import calls_in
from tests.workflows.dispatch.models import assemble_cut, assembled, chat_model, endpoint_of, flat_model

S0 = {"role": "system", "content": "S0"}
S1 = {"role": "system", "content": "S1"}
U1 = {"role": "user", "content": "u1 {x}"}
A1 = {"role": "assistant", "content": "a1"}
A2 = {"role": "assistant", "content": "a2"}
U2 = {"role": "user", "content": "u2"}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}],
}
RESULT = {"role": "tool", "content": "r", "tool_call_id": "c"}
TALK = [S0, U1, A1, S1, U2]


CHAT = chat_model()
TEMPLATE = {
    "promptTemplateSystemPrefix": "<s>",
    "promptTemplateSystemSuffix": "</s>",
    "promptTemplateUserPrefix": "<u>",
    "promptTemplateUserSuffix": "</u>",
    "promptTemplateAssistantPrefix": "<a>",
    "promptTemplateAssistantSuffix": "</a>",
    "promptTemplateEndToken": "!",
}


def flat(**endpoint: Any) -> LlmHandler:
    return flat_model(TEMPLATE, **endpoint)


def parts(messages: Any = (), *, system: str = "", authored: str | None = None, **fields: Any) -> Parts:
    more = {key: fields.pop(key) for key in list(fields) if key in Parts.__dataclass_fields__}
    return Parts(fields, system, authored, list(messages), **more)


def texts(messages: Any) -> str:
    return " ".join(f"{m['role'][0]}:{m['content']}" for m in messages)


WINDOWS = [
    ("the-last-n-after-leading-system", parts(TALK), "u:u1 {x} a:a1 s:S1 u:u2"),
    ("a-system-prompt-comes-first", parts(TALK, system="P", lastMessagesToSendInsteadOfPrompt=1), "s:P u:u2"),
    (
        "none-gives-the-newest-user-turn",
        parts(TALK, system="P", lastMessagesToSendInsteadOfPrompt=0),
        "s:P u:u2",
    ),
    ("no-user-left-puts-one-back", parts([U1, A1, A2], lastMessagesToSendInsteadOfPrompt=1), "u:u1 {x} a:a2"),
    ("a-ceiling-keeps-the-newest", parts(TALK, lastMessagesToSendInsteadOfPromptMaxTokenSize=2), "s:S1 u:u2"),
    (
        "a-ceiling-of-zero-is-none",
        parts(TALK, lastMessagesToSendInsteadOfPromptMaxTokenSize=0),
        "u:u1 {x} a:a1 s:S1 u:u2",
    ),
    ("merging", parts([U1, A1, A2, U2], mergeConsecutiveAssistantMessages=True), "u:u1 {x} a:a1\na2 u:u2"),
    (
        "merging-at-the-end",
        parts(
            [U1, A1, A2],
            mergeConsecutiveAssistantMessages=True,
            mergeConsecutiveAssistantMessagesDelimiter="+",
        ),
        "u:u1 {x} a:a1+a2",
    ),
    (
        "inserting",
        parts([U1, A1, A2], insertUserTurnBetweenAssistantMessages=True),
        "u:u1 {x} a:a1 u:Continue. a:a2",
    ),
    (
        "merging-wins",
        parts(
            [U1, A1, A2], insertUserTurnBetweenAssistantMessages=True, mergeConsecutiveAssistantMessages=True
        ),
        "u:u1 {x} a:a1\na2",
    ),
    (
        "tool-turns-break-a-run",
        parts([U1, CALL, RESULT, A2], mergeConsecutiveAssistantMessages=True),
        "u:u1 {x} a: t:r a:a2",
    ),
    (
        "a-lost-call-loses-its-results",
        parts([U1, CALL, RESULT, U2], lastMessagesToSendInsteadOfPrompt=2),
        "u:u2",
    ),
    ("an-open-call-at-the-end-stays", parts([U1, CALL]), "u:u1 {x} a:"),
    ("authored-is-one-turn", parts(TALK, authored="P"), "u:P"),
    ("authored-may-be-empty", parts(TALK, system="S", authored=""), "s:S u:"),
    ("an-exchange-follows", parts([U1], authored="P", exchange=(CALL, RESULT)), "u:P a: t:r"),
    ("all-system", parts([S0, S1]), ""),
    ("nothing", parts(), ""),
]


@pytest.mark.parametrize(("given", "sent"), [w[1:] for w in WINDOWS], ids=[w[0] for w in WINDOWS])
def test_messages(given, sent):
    """The messages of a chat backend."""
    assert texts(assembled(given, CHAT).conversation) == sent


def test_merging_keeps_all_tool_calls():
    """The calls of merged turns stand in one list; other keys are the first one's."""
    merged = assembled(
        parts([U1, CALL, {**CALL, "content": "x"}], mergeConsecutiveAssistantMessages=True), CHAT
    )
    assert len(merged.conversation[1]["tool_calls"]) == 2


def test_the_conversation_is_never_changed():
    """Messages are handed on; lists are new."""
    talk = [dict(m, images=["i"]) for m in (U1, A1, A2, U2)]
    before = [dict(m) for m in talk]
    assembled(parts(talk, mergeConsecutiveAssistantMessages=True, takes_images=True, max_images=1), CHAT)
    assert talk == before


class TestImages:
    TALK = ({**U1, "images": ["1", "2"]}, A1, {**U2, "images": ["3"]})

    @pytest.mark.parametrize(
        ("limit", "kept"),
        [(0, [["1", "2"], ["3"]]), (2, [["2"], ["3"]]), (1, [["3"]])],
        ids=["all", "two", "one"],
    )
    def test_the_newest_stay_with_their_messages(self, limit, kept):
        """Messages beyond the limit lose the key."""
        sent = assembled(parts(self.TALK, takes_images=True, max_images=limit), CHAT).conversation
        assert [m["images"] for m in sent if "images" in m] == kept

    @pytest.mark.parametrize(
        ("fields", "gathered"),
        [
            ({}, ["1", "2", "3"]),
            ({"max_images": 2}, ["2", "3"]),
            ({"lastMessagesToSendInsteadOfPrompt": 1}, ["3"]),
            ({"lastMessagesToSendInsteadOfPrompt": 0}, None),
            ({"takes_images": False}, None),
        ],
    )
    def test_an_authored_turn_gathers_them(self, fields, gathered):
        """Oldest first, from the last N messages."""
        given = parts(self.TALK, authored="P", **{"takes_images": True, **fields})
        assert assembled(given, CHAT).conversation[-1].get("images") == gathered
        sent = assembled(given, flat()).conversation
        assert sent == (gathered and [{"role": "user", "content": "", "images": gathered}])

    @pytest.mark.parametrize(("count", "gathered"), [(0, None), (1, ["0", "1", "2"])])
    def test_those_of_an_open_exchange_with_tools_are_among_them(self, count, gathered):
        """All of it, where any message is looked at."""
        results = ({**RESULT, "images": [name]} for name in "12")
        talk = [{**U1, "images": ["0"]}, CALL, *results]
        given = parts(talk, authored="P", takes_images=True, lastMessagesToSendInsteadOfPrompt=count)
        turn = next(m for m in assembled(given, CHAT).conversation if m["content"] == "P")
        assert turn.get("images") == gathered


FLAT = [
    ("a-conversation", parts(TALK, system="P"), {}, "<s>P</s>", "<u>u1 {x}</u><a>a1</a><u>u2</u>"),
    ("n-plus-one", parts(TALK, lastMessagesToSendInsteadOfPrompt=0), {}, "<s></s>", "<u>u2</u>"),
    ("an-open-assistant-turn", parts([U1, A1]), {}, "<s></s>", "<u>u1 {x}</u><a>a1"),
    ("authored", parts(authored="P"), {}, "<s></s>", "P"),
    ("user-turn", parts(authored="P", addUserTurnTemplate=True), {}, "<s></s>", "<u>P</u>"),
    (
        "open-ended",
        parts(authored="P", addUserTurnTemplate=True, addOpenEndedAssistantTurnTemplate=True),
        {},
        "<s></s>",
        "<a><u>P</u>",
    ),
    (
        "generation-prompt",
        parts(authored="P", wants_generation_prompt=True),
        {"addGenerationPrompt": True},
        "<s></s>",
        "P<a>!",
    ),
    ("not-if-the-endpoint-has-none", parts(authored="P", wants_generation_prompt=True), {}, "<s></s>", "P"),
    ("marks-are-removed", parts(authored="[Beg_User]P", system="[Beg_Sys]S"), {}, "<s>S</s>", "P"),
    ("strict-empty-system", parts(authored="P"), {"strictPromptTemplate": True}, "", "P"),
    (
        "strict-injects-inside",
        parts([U1], system="S"),
        {
            "strictPromptTemplate": True,
            "addTextToStartOfSystem": True,
            "textToAddToStartOfSystem": "i",
            "addTextToStartOfPrompt": True,
            "textToAddToStartOfPrompt": "j",
        },
        "<s>iS</s>",
        "<u>ju1 {x}</u>",
    ),
    (
        "strict-tool-turns",
        parts([CALL, {**RESULT, "name": "f"}]),
        {"strictPromptTemplate": True},
        "",
        "<a>[Tool Call: f] {}</a>[Tool Result: f] r",
    ),
    (
        "a-ceiling",
        parts(TALK, lastMessagesToSendInsteadOfPromptMaxTokenSize=3),
        {},
        "<s></s>",
        "<a>a1</a><u>u2</u>",
    ),
]


@pytest.mark.parametrize(
    ("given", "endpoint", "system", "prompt"), [f[1:] for f in FLAT], ids=[f[0] for f in FLAT]
)
def test_flat_prompts(given, endpoint, system, prompt):
    """The two texts of a backend that takes one prompt."""
    sent = assembled(given, flat(**endpoint))
    assert (sent.system_prompt, sent.prompt) == (system, prompt)


class TestClamp:
    @pytest.mark.parametrize(
        ("level", "budget"),
        [
            ("conservative", 6656),
            (" Balanced ", 8448),
            ("aggressive", 10240),
            ("xaggressive", 12748),
            (None, 6656),
        ],
    )
    def test_budget(self, level, budget):
        """The window less the response, times the level, less a reserve."""
        endpoint = {"maxContextTokenSize": 8192, "wilmerContextEstimationLevel": level}
        assert Clamp.of(parts(max_tokens=1024, user_clamp=True), endpoint_of(**endpoint)).budget == budget

    @pytest.mark.parametrize(
        ("node", "endpoint", "user", "on"),
        [
            ({}, {}, False, False),
            ({}, {}, True, True),
            ({}, {"clampPromptToContextWindow": False}, True, False),
            ({"clampPromptToContextWindow": "yes"}, {"clampPromptToContextWindow": False}, False, True),
            ({"clampPromptToContextWindow": "no"}, {}, True, False),
        ],
    )
    def test_who_decides(self, node, endpoint, user, on):
        """The node, else the endpoint, else the user."""
        clamp = Clamp.of(parts(user_clamp=user, **node), endpoint_of(maxContextTokenSize=9000, **endpoint))
        assert (clamp.budget is not None) is on

    def test_an_unknown_window_has_no_budget(self):
        """Only the factor applies then."""
        clamp = Clamp.of(parts(user_clamp=True), endpoint_of(wilmerContextEstimationLevel="balanced"))
        assert (clamp.budget, clamp.factor) == (None, 1.25)

    def test_an_unknown_level_warns(self):
        """And counts as conservative."""
        clamp = Clamp.of(parts(user_clamp=True), endpoint_of(wilmerContextEstimationLevel="huge"))
        assert clamp.factor == 1.0 and "huge" in clamp.warnings[0]

    @pytest.mark.parametrize("target", [{}, {"flat": True}], ids=["chat", "flat"])
    def test_whole_oldest_messages_fall(self, target):
        """Each message costs its estimate and eight; the newest stays whatever it costs."""
        endpoint = {"maxContextTokenSize": 560}
        talk = [{"role": "user", "content": "x" * 35} for _ in range(5)]
        given = parts(talk, user_clamp=True)
        _, clamp = assemble_cut(given, flat(**endpoint) if target else chat_model(**endpoint))
        assert (clamp.dropped, clamp.warnings) == (3, [])

    def test_a_brace_in_a_message_is_long(self):
        """Windows end where those of existing memory files end."""
        talk = [{"role": "user", "content": "{" * 10}, U2]
        _, clamp = assemble_cut(parts(talk, user_clamp=True), chat_model(maxContextTokenSize=560))
        assert clamp.dropped == 1

    @pytest.mark.parametrize(("window", "word"), [(513, "over the budget"), (100, "leaves a budget")])
    def test_a_newest_message_that_is_too_long_is_sent(self, window, word):
        """With a warning."""
        sent, clamp = assemble_cut(parts([U1, U2], user_clamp=True), chat_model(maxContextTokenSize=window))
        assert texts(sent.conversation) == "u:u2" and word in clamp.warnings[0]

    def test_an_authored_prompt_is_never_cut(self):
        """With a warning."""
        sent, clamp = assemble_cut(
            parts(authored="x" * 99, user_clamp=True), chat_model(maxContextTokenSize=520)
        )
        assert len(sent.conversation[0]["content"]) == 99 and "sent whole" in clamp.warnings[0]

    def test_system_prompt_and_tools_take_their_part(self):
        """Both are subtracted from the budget."""
        full = Clamp.of(parts(user_clamp=True), endpoint_of(maxContextTokenSize=9000)).budget
        less = Clamp.of(
            parts(user_clamp=True, system="x" * 35, tools=({"a": 1},)), endpoint_of(maxContextTokenSize=9000)
        )
        assert less.budget == full - 11 - 2

    @pytest.mark.parametrize("target", [{}, {"flat": True}], ids=["chat", "flat"])
    def test_writing_without_blanks_is_counted_as_it_is(self, target):
        """Each character is a token: 300 of them and eight, twice, do not fit 600. (memory.md 18.2.19)"""
        endpoint = {"maxContextTokenSize": 512 + 600}
        talk = [{"role": "user", "content": "\u8702" * 300} for _ in range(3)]
        _, clamp = assemble_cut(
            parts(talk, user_clamp=True), flat(**endpoint) if target else chat_model(**endpoint)
        )
        assert clamp.dropped == 2

    def test_a_ceiling_counts_like_the_clamp_where_that_is_on(self):
        """And keeps the measure of the peer where it is off."""
        talk = [{"role": "user", "content": "\u8702" * 300} for _ in range(3)]
        given = {"lastMessagesToSendInsteadOfPromptMaxTokenSize": 600}
        on, off = parts(talk, user_clamp=True, **given), parts(talk, **given)
        assert [len(assembled(each, CHAT).conversation) for each in (on, off)] == [2, 3]


USER = {"role": "user", "content": "question"}
CALL2 = {**CALL, "tool_calls": [{"id": "c2", "function": {"name": "f", "arguments": "{}"}}]}
RESULT2 = {**RESULT, "content": "r2", "tool_call_id": "c2"}
EXCHANGE = [USER, CALL, RESULT, CALL2, RESULT2]
LONG = {**RESULT, "content": "x" * 20_000}
SMALL = {"maxContextTokenSize": 1000}

WHOLE = [
    pytest.param({"lastMessagesToSendInsteadOfPrompt": 1}, {}, id="a-window-of-one"),
    pytest.param({"lastMessagesToSendInsteadOfPrompt": 0}, {}, id="a-window-of-none"),
    pytest.param({"lastMessagesToSendInsteadOfPromptMaxTokenSize": 1}, {}, id="a-ceiling"),
    pytest.param({"clampPromptToContextWindow": True}, {"maxContextTokenSize": 530}, id="the-clamp"),
    pytest.param({"clampPromptToContextWindow": True}, {"maxContextTokenSize": 100}, id="no-budget-at-all"),
    pytest.param(
        {"clampPromptToContextWindow": True, "lastMessagesToSendInsteadOfPromptMaxTokenSize": 3},
        {"maxContextTokenSize": 530},
        id="ceiling-and-clamp",
    ),
]


class TestToolExchanges:
    """backends.md 13.4: what is being answered is never cut apart."""

    @pytest.mark.parametrize(("node", "endpoint"), WHOLE)
    def test_it_is_sent_whole(self, node, endpoint):
        """The question, its calls and their results, and nothing older."""
        sent = assembled(parts([U1, A1, *EXCHANGE], **node), chat_model(**endpoint))
        assert sent.conversation == EXCHANGE

    @pytest.mark.parametrize(("node", "endpoint"), WHOLE)
    def test_a_flat_prompt_holds_it_whole(self, node, endpoint):
        """Behind it there may be room for more."""
        sent = assembled(parts([U1, A1, *EXCHANGE], **node), flat_model({}, **endpoint))
        assert sent.prompt == "questionrr2"

    def test_older_exchanges_are_cut_as_ever(self):
        """Their results go with their call."""
        talk = [USER, CALL, RESULT, A1, U2, CALL2, RESULT2]
        sent = assembled(parts(talk, lastMessagesToSendInsteadOfPrompt=5), CHAT)
        assert sent.conversation == [A1, U2, CALL2, RESULT2]

    def test_a_window_that_holds_more_is_as_it_was(self):
        """N counts the exchange."""
        sent = assembled(parts([U1, A1, *EXCHANGE], lastMessagesToSendInsteadOfPrompt=6), CHAT)
        assert sent.conversation == [A1, *EXCHANGE]

    def test_a_long_result_is_sent_with_its_question_and_one_warning(self):
        """It says what is sent whole, and it is."""
        given = parts([U1, USER, CALL, LONG], user_clamp=True)
        sent, clamp = assemble_cut(given, chat_model(**SMALL))
        assert sent.conversation == [USER, CALL, LONG] and clamp.dropped == 1
        assert clamp.warnings == [
            "what is being answered (3 messages) takes 6311 tokens, over the budget of 488; it is sent whole"
        ]

    def test_without_a_user_message_all_of_it_is_one(self):
        """Nothing of it is dropped as a result without a call."""
        sent = assembled(parts([S0, CALL, RESULT], lastMessagesToSendInsteadOfPrompt=1), CHAT)
        assert sent.conversation == [CALL, RESULT]

    def test_inserted_turns_do_not_part_it(self):
        """They are no question."""
        talk = [U1, USER, A1, CALL, LONG]
        given = parts(talk, user_clamp=True, insertUserTurnBetweenAssistantMessages=True)
        sent = assembled(given, chat_model(**SMALL))
        assert texts(sent.conversation[:4]) == "u:question a:a1 u:Continue. a:"
        assert sent.conversation[3:] == [CALL, LONG]

    def test_merging_leaves_its_calls(self):
        """The merged turn has them."""
        talk = [U1, USER, A1, CALL, LONG]
        given = parts(talk, user_clamp=True, mergeConsecutiveAssistantMessages=True)
        sent = assembled(given, chat_model(**SMALL))
        assert [m["role"] for m in sent.conversation] == ["user", "assistant", "tool"]
        assert sent.conversation[1]["tool_calls"] == CALL["tool_calls"]

    @pytest.mark.parametrize("target", [CHAT, flat()], ids=["chat", "flat"])
    @pytest.mark.parametrize("authored", [None, "look"], ids=["conversation", "authored"])
    def test_pictures_of_the_question_stay(self, target, authored):
        """A window of one message looks at those of what is being answered."""
        talk = [{**USER, "images": ["old"]}, A1, {**USER, "images": ["new"]}, CALL, RESULT]
        given = parts(talk, authored=authored, takes_images=True, lastMessagesToSendInsteadOfPrompt=1)
        sent = assembled(given, target)
        assert [image for m in sent.conversation for image in m.get("images", ())] == ["new"]

    def test_lines_of_a_group_are_no_exchange(self):
        """The window counts them, however long nobody spoke."""
        sent = assembled(parts([U1, *[A1, A2] * 9], lastMessagesToSendInsteadOfPrompt=2), CHAT)
        assert texts(sent.conversation) == "u:u1 {x} a:a1 a:a2"

    def test_a_question_stays_with_the_answer_that_is_begun(self):
        """A flat prompt, too, keeps both."""
        question = {"role": "user", "content": "q" * 9000}
        begun = {"role": "assistant", "content": "Assistant:"}
        sent, clamp = assemble_cut(parts([U1, question, begun], user_clamp=True), flat(**SMALL))
        assert sent.prompt == f"<u>{'q' * 9000}</u><a>Assistant:" and len(clamp.warnings) == 1


def tools(characters: int) -> tuple[dict[str, str], ...]:
    """36 tools whose JSON has that many characters."""
    bare = len(json.dumps([{"name": ""}] * 36))
    each, rest = divmod(characters - bare, 36)
    listed = [{"name": "x" * each}] * 35 + [{"name": "x" * (each + rest)}]
    assert len(json.dumps(listed)) == characters
    return tuple(listed)


class TestCostOfTools:
    """backends.md 13.4: tools never cost the conversation."""

    @pytest.mark.parametrize(
        ("characters", "budget"),
        [
            pytest.param(4000, 7192 - 512 - 1000, id="four-characters-a-token"),
            pytest.param(4 * 3596, 7192 - 512 - 3596, id="half-of-the-room"),
            pytest.param(4 * 3597, 7192 - 512, id="more-than-half"),
        ],
    )
    def test_they_are_left_out_above_half_of_the_room(self, characters, budget):
        """The room is the window less the answer."""
        given = parts(tools=tools(characters), max_tokens=1000, user_clamp=True)
        assert Clamp.of(given, endpoint_of(maxContextTokenSize=8192)).budget == budget

    def test_the_level_stretches_the_room(self):
        """Half of (W - R) * f."""
        given = parts(tools=tools(4 * 5000), max_tokens=1000, user_clamp=True)
        clamp = Clamp.of(
            given, endpoint_of(maxContextTokenSize=8192, wilmerContextEstimationLevel="aggressive")
        )
        assert clamp.budget == int(7192 * 1.5) - 512 - 5000 and clamp.costly_tools == ""

    def test_the_log_says_what_to_do(self):
        """In numbers that read well."""
        _, clamp = assemble_cut(
            parts([USER], tools=tools(4 * 7013), user_clamp=True),
            chat_model(maxContextTokenSize=8192),
        )
        assert clamp.costly_tools == (
            "the client's 36 tools take about 7,000 of 8,192 tokens: raise maxContextTokenSize, switch tools "
            "off in the client, or turn allowTools off"
        )

    def test_the_text_that_demands_a_call_is_no_system_prompt(self):
        """It lists the tools, and costs what they cost."""
        given = parts(system="S", tools=tools(4000), demand="d" * 4 * 5000, user_clamp=True)
        clamp = Clamp.of(given, endpoint_of(maxContextTokenSize=8192))
        assert clamp.budget == 8192 - 512 - 1 and "36 tools take about 5,000" in clamp.costly_tools

    def test_a_conversation_beside_many_tools_stays(self):
        """36 tools of 7,000 tokens in a window of 8,192."""
        talk = [*[U1, A1] * 20, *EXCHANGE]
        given = parts(talk, tools=tools(28_000), user_clamp=True, lastMessagesToSendInsteadOfPrompt=200)
        sent, clamp = assemble_cut(given, chat_model(maxContextTokenSize=8192))
        assert sent.conversation == talk and clamp.dropped == 0


@pytest.mark.parametrize("target", [CHAT, flat()], ids=["chat", "flat"])
def test_a_long_history_costs_little_a_message(target):
    """The work grows with the messages and no faster, by a few calls of functions each."""

    def cost(count):
        talk = [{"role": ("user", "assistant")[i % 2], "content": "word " * 50} for i in range(count)]
        given = parts(talk, lastMessagesToSendInsteadOfPrompt=count, mergeConsecutiveAssistantMessages=True)
        return calls_in(lambda: assembled(given, target))

    cost(10)
    earlier, later = cost(2000) - cost(1000), cost(3000) - cost(2000)
    assert later <= 1.05 * earlier and later < 40 * 1000


def _nodes(document: Any) -> list[dict[str, Any]]:
    return document if isinstance(document, list) else document.get("nodes", [])


CONFIGS = Path(__file__).parents[3] / "Public" / "Configs"
WITH_TOOLS = [
    (workflow.parent.name, node)
    for workflow in sorted(CONFIGS.glob("Workflows/*/*.json"))
    for node in _nodes(json.loads(workflow.read_text("utf-8")))
    if node.get("allowTools")
]


@pytest.mark.parametrize(("user", "node"), WITH_TOOLS, ids=[user for user, _ in WITH_TOOLS])
def test_an_example_with_tools_remembers_its_chat(user, node):
    """Open WebUI sends 36 of them, 7,000 tokens, with each message: they take nothing of the window."""
    settings = json.loads((CONFIGS / "Users" / f"{user}.json").read_text("utf-8"))
    folder = CONFIGS / "Endpoints" / settings["endpointConfigsSubDirectory"]
    names = (f"{node['endpointName']}.example.json", f"{node['endpointName']}.json")  # as they ship
    file = next(folder / name for name in names if (folder / name).exists())
    endpoint = json.loads(file.read_text("utf-8"))
    clamp = settings.get("clampPromptToContextWindow")
    limit = node["maxResponseSizeInTokens"]
    talk = [*[U1, A1] * 10, *EXCHANGE]
    bare = Parts(node, "", None, talk, max_tokens=limit, user_clamp=clamp)
    asked = replace(bare, tools=tools(28_000))
    window = assembled(asked, chat_model(**endpoint)).conversation
    assert window == assembled(bare, chat_model(**endpoint)).conversation
    assert len(window) >= node["lastMessagesToSendInsteadOfPrompt"] or window == talk
