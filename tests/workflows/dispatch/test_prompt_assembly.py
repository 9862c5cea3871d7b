"""What a backend is sent for a node and a conversation: windows, merging, images, the clamp, flat prompts."""

from __future__ import annotations

from typing import Any

import pytest

from Middleware.config.endpoints import EndpointConfig
from Middleware.workflows.dispatch.prompt_assembly import Clamp, Parts, Target, assemble
from tests.counting import calls_in

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


def of(**raw):
    """An endpoint whose file holds these keys."""
    return EndpointConfig("E", raw, "t", {})


CHAT = Target(of(), takes_messages=True)
TEMPLATE = {
    "promptTemplateSystemPrefix": "<s>",
    "promptTemplateSystemSuffix": "</s>",
    "promptTemplateUserPrefix": "<u>",
    "promptTemplateUserSuffix": "</u>",
    "promptTemplateAssistantPrefix": "<a>",
    "promptTemplateAssistantSuffix": "</a>",
    "promptTemplateEndToken": "!",
}


def flat(**endpoint: Any) -> Target:
    return Target(of(**endpoint), False, TEMPLATE)


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
    assert texts(assemble(given, CHAT).conversation) == sent


def test_merging_keeps_all_tool_calls():
    """The calls of merged turns stand in one list; other keys are the first one's."""
    merged = assemble(
        parts([U1, CALL, {**CALL, "content": "x"}], mergeConsecutiveAssistantMessages=True), CHAT
    )
    assert len(merged.conversation[1]["tool_calls"]) == 2


def test_the_conversation_is_never_changed():
    """Messages are handed on; lists are new."""
    talk = [dict(m, images=["i"]) for m in (U1, A1, A2, U2)]
    before = [dict(m) for m in talk]
    assemble(parts(talk, mergeConsecutiveAssistantMessages=True, takes_images=True, max_images=1), CHAT)
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
        sent = assemble(parts(self.TALK, takes_images=True, max_images=limit), CHAT).conversation
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
        assert assemble(given, CHAT).conversation[-1].get("images") == gathered
        sent = assemble(given, flat()).conversation
        assert sent == (gathered and [{"role": "user", "content": "", "images": gathered}])


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
    sent = assemble(given, flat(**endpoint))
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
        assert Clamp.of(parts(max_tokens=1024, user_clamp=True), of(**endpoint)).budget == budget

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
        clamp = Clamp.of(parts(user_clamp=user, **node), of(maxContextTokenSize=9000, **endpoint))
        assert (clamp.budget is not None) is on

    def test_an_unknown_window_has_no_budget(self):
        """Only the factor applies then."""
        clamp = Clamp.of(parts(user_clamp=True), of(wilmerContextEstimationLevel="balanced"))
        assert (clamp.budget, clamp.factor) == (None, 1.25)

    def test_an_unknown_level_warns(self):
        """And counts as conservative."""
        clamp = Clamp.of(parts(user_clamp=True), of(wilmerContextEstimationLevel="huge"))
        assert clamp.factor == 1.0 and "huge" in clamp.warnings[0]

    @pytest.mark.parametrize("target", [{}, {"flat": True}], ids=["chat", "flat"])
    def test_whole_oldest_messages_fall(self, target):
        """Each message costs its estimate and eight; the newest stays whatever it costs."""
        endpoint = {"maxContextTokenSize": 560}
        talk = [{"role": "user", "content": "x" * 35} for _ in range(5)]
        given = parts(talk, user_clamp=True)
        sent = assemble(given, flat(**endpoint) if target else Target(of(**endpoint), True))
        assert (sent.dropped, sent.warnings) == (3, [])

    def test_a_brace_in_a_message_is_long(self):
        """Windows end where those of existing memory files end."""
        talk = [{"role": "user", "content": "{" * 10}, U2]
        sent = assemble(parts(talk, user_clamp=True), Target(of(maxContextTokenSize=560), True))
        assert sent.dropped == 1

    @pytest.mark.parametrize(("window", "word"), [(513, "over the budget"), (100, "leaves a budget")])
    def test_a_newest_message_that_is_too_long_is_sent(self, window, word):
        """With a warning."""
        sent = assemble(parts([U1, U2], user_clamp=True), Target(of(maxContextTokenSize=window), True))
        assert texts(sent.conversation) == "u:u2" and word in sent.warnings[0]

    def test_an_authored_prompt_is_never_cut(self):
        """With a warning."""
        sent = assemble(parts(authored="x" * 99, user_clamp=True), Target(of(maxContextTokenSize=520), True))
        assert len(sent.conversation[0]["content"]) == 99 and "sent whole" in sent.warnings[0]

    def test_system_prompt_and_tools_take_their_part(self):
        """Both are subtracted from the budget."""
        full = Clamp.of(parts(user_clamp=True), of(maxContextTokenSize=9000)).budget
        less = Clamp.of(
            parts(user_clamp=True, system="x" * 35, tools=({"a": 1},)), of(maxContextTokenSize=9000)
        )
        assert less.budget == full - 11 - 3


@pytest.mark.parametrize("target", [CHAT, flat()], ids=["chat", "flat"])
def test_a_long_history_costs_little_a_message(target):
    """The work grows with the messages and no faster, by a few calls of functions each."""

    def cost(count):
        talk = [{"role": ("user", "assistant")[i % 2], "content": "word " * 50} for i in range(count)]
        given = parts(talk, lastMessagesToSendInsteadOfPrompt=count, mergeConsecutiveAssistantMessages=True)
        return calls_in(lambda: assemble(given, target))

    cost(10)
    earlier, later = cost(2000) - cost(1000), cost(3000) - cost(2000)
    assert later <= 1.05 * earlier and later < 40 * 1000
