"""A conversation walked turn by turn: what servers hold, what they read, where prompts part (prompt-reuse.md
4)."""

from __future__ import annotations

from typing import Any

import pytest

from Middleware.services.token_ratios import forget_ratios, token_ratios
from Middleware.workflows.checks.dry_run import Sent
from Middleware.workflows.checks.prompt_reuse import (
    LATE,
    MESSAGE,
    NEWEST,
    PROMPT,
    SYSTEM,
    TOOLS,
    WINDOW,
    HeldTexts,
    Leaving,
    SentText,
    TurnWalk,
    chat_requests,
    count_common,
    find_leaving,
    made_conversation,
)

SERVER = ("http://h", "m")
NODE, OTHER = ("Workflows/ana/Main.json", 1), ("Workflows/ana/Main.json", 2)


def say(*texts: str) -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    return [{"role": roles[number % 2], "content": text} for number, text in enumerate(texts)]


def sent(*texts: str, system: str = "S", late: str = "", node: Any = NODE, **body: Any) -> SentText:
    messages = [{"role": "system", "content": system}, *say(*texts)]
    return SentText.of(Sent("http://h", {}, {"messages": messages, **body}, late_text=late), node)


class TestConversation:
    def test_a_request_before_each_answer(self):
        """And one at the end, which has none yet."""
        talk = say("a", "b", "c")
        assert chat_requests(talk) == [(talk[:1], "b"), (talk, "")]

    def test_a_greeting_answers_nothing(self):
        """Front ends begin a chat with a line of the character."""
        talk = [{"role": "assistant", "content": "Hello"}, *say("a", "b")]
        assert chat_requests(talk) == [(talk[:2], "b")]

    def test_each_speaker_of_a_group_is_asked_for(self):
        talk = [*say("a", "b"), {"role": "assistant", "content": "c"}]
        assert [asked.answer for asked in chat_requests(talk)] == ["b", "c"]

    def test_the_made_one(self):
        """Forty turns, the newest without an answer, and a long system prompt."""
        talk = made_conversation()
        assert (len(talk), talk[-1]["role"], len(talk[0]["content"])) == (80, "user", 3000)
        assert len({message["content"][:40] for message in talk}) == 80


class TestHeldTexts:
    @pytest.mark.parametrize(
        ("one", "other", "common"), [("abc", "abd", 2), ("ab", "abc", 2), ("", "a", 0), ("x", "y", 0)]
    )
    def test_the_common_beginning(self, one, other, common):
        assert count_common(one, other) == common

    def test_an_answer_is_held_with_its_prompt(self):
        """The next turn's prompt goes on behind it."""
        held, first, second = HeldTexts(1), sent("hello"), sent("hello", "an answer", "more")
        assert held.read(SERVER, first, "an answer") == (0, None)
        assert held.read(SERVER, second, "x") == (len(first.text) + len("an answer"), first)

    def test_one_slot_holds_one_prompt(self):
        """Another prompt takes its place."""
        held, one, two = HeldTexts(1), sent("a" * 200), sent("b" * 200, system="other")
        held.read(SERVER, one, "")
        held.read(SERVER, two, "")
        assert held.read(SERVER, one, "")[1] is two

    def test_of_two_slots_the_best_one_wins(self):
        held, one, two = HeldTexts(2), sent("a" * 200), sent("b" * 200, system="other")
        held.read(SERVER, one, "")
        held.read(SERVER, two, "")
        assert held.read(SERVER, one, "") == (len(one.text), one)

    def test_another_model_is_another_server(self):
        held, one = HeldTexts(1), sent("a")
        held.read(SERVER, one, "")
        assert held.read(("http://h", "other"), one, "") == (0, None)


PLACES = [
    (
        "front-of-another",
        sent("a", system="One"),
        sent("a", system="Two", node=OTHER),
        Leaving(SYSTEM, 0, OTHER),
    ),
    ("front-that-changes", sent("a", system="It is 1"), sent("a", system="It is 2"), Leaving(SYSTEM, 6)),
    ("window", sent("c", "d", "e"), sent("a", "b", "c"), Leaving(WINDOW, 1)),
    ("edited", sent("a", "b", "c", "d", "e"), sent("a", "x", "c"), Leaving(MESSAGE, 2)),
    (
        "late-text-now",
        sent("a\n\nN", late="\n\nN"),
        sent("a\n\nM", late="\n\nM", node=OTHER),
        Leaving(LATE, 0, OTHER),
    ),
    ("late-text-then", sent("a", "b", "c"), sent("a\n\nM", late="\n\nM"), Leaving(LATE)),
    ("tools", sent("a", tools=[{"x": 1}]), sent("a", tools=[{"y": 1}]), Leaving(TOOLS, 3)),
]


@pytest.mark.parametrize(
    ("prompt", "held", "place"), [case[1:] for case in PLACES], ids=[c[0] for c in PLACES]
)
def test_where_prompts_part(prompt, held, place):
    """The part, and how far into it."""
    assert find_leaving(prompt, count_common(prompt.text, held.text), held, authored=False) == place


def test_an_authored_prompt_is_one_part():
    """Whatever is in it."""
    prompt, held = sent("Say 1"), sent("Say 2")
    assert find_leaving(prompt, count_common(prompt.text, held.text), held, authored=True) == Leaving(
        PROMPT, 4
    )


def test_a_turn_more_leaves_nowhere():
    """It goes on where the held one ends."""
    prompt, held = sent("a", "b", "c"), sent("a")
    assert find_leaving(prompt, len(held.text) + 1, held, authored=False).kind == NEWEST


def test_a_flat_prompt_is_compared_too():
    """It has one part, and no marks of ours."""
    flat = SentText.of(Sent("http://h", {}, {"prompt": "Hello"}), NODE)
    assert (flat.text, flat.parts) == ("Hello", [("", 0, 5)])


@pytest.fixture
def walk(house):
    """Walks `Main` of these nodes through a conversation."""
    house.write("ApiTypes/Chat", {"type": "openAIChatCompletion", "presetType": "any"})

    def made(*nodes: Any, say: Any = None, **options: Any) -> TurnWalk:
        house.workflow("Main", *nodes)
        manager = house.manager()
        options = {"has_discussion": True, **options}
        return TurnWalk(
            manager.snapshot,
            manager.user,
            lambda dry, question: dry.open_run("Main", question),
            made_conversation() if say is None else say,
            **options,
        )

    return made


def ask(**fields: Any) -> dict[str, Any]:
    front = {"systemPrompt": "{chat_system_prompt}", "lastMessagesToSendInsteadOfPrompt": 999}
    return {"type": "Standard", "endpointName": "chat", **front, **fields}


class TestWalk:
    def test_the_whole_conversation_costs_its_newest_message(self, walk, house):
        """The model holds its own answer, and no model is called."""
        report = walk(ask()).report()
        node = report.nodes["Workflows/ana/Main.json", 1]
        assert (node.calls, node.endpoint) == (12, "chat")
        assert report.of_a_turn(report.read_chars) == 300 + len("\n<|user|>\n\n<|assistant|>\n")
        assert house.model.calls == []

    def test_a_window_that_moves_costs_all(self, walk):
        """Behind the system prompt."""
        report = walk(ask(lastMessagesToSendInsteadOfPrompt=20)).report()
        (node,) = report.nodes.values()
        assert node.main_leaving() == (Leaving(WINDOW, 1), 12)
        assert node.chars - node.new_chars == pytest.approx(12 * 3034, abs=12)

    def test_nodes_that_share_a_beginning_share_what_is_held(self, walk):
        """The second reads only its own late text."""
        report = walk(ask(latePrompt="Draft."), ask(latePrompt="Answer.")).report()
        second = report.nodes["Workflows/ana/Main.json", 2]
        assert second.new_chars < 12 * 40
        assert second.main_leaving()[0] == Leaving(LATE, 0, ("Workflows/ana/Main.json", 1))

    def test_more_slots_hold_more_nodes(self, walk):
        """Two instructions in front need two."""
        nodes = ask(systemPrompt="One"), ask(systemPrompt="Two")
        one, two = (walk(*nodes, slots=slots).report().read_chars for slots in (1, 2))
        assert two < one / 10

    def test_what_is_read_behind_the_answer_is_not_waited_for(self, walk):
        report = walk(ask(returnToUser=True), ask(prompt="Note {agent1Output}")).report()
        behind = report.nodes["Workflows/ana/Main.json", 2]
        assert report.waited_chars == report.read_chars - behind.new_chars
        assert behind.new_chars > 0

    def test_the_answer_that_other_nodes_see_is_the_conversations(self, walk):
        """Not the stub's."""
        report = walk(ask(returnToUser=True), ask(prompt="{agent1Output}", systemPrompt="")).report()
        behind = report.nodes["Workflows/ana/Main.json", 2]
        assert behind.chars / 12 > 350

    def test_new_is_what_no_server_could_hold(self, walk):
        """At most what is read: the user's message, where the answer is held."""
        report = walk(ask()).report()
        assert report.new_chars == report.read_chars

    def test_child_workflows_count(self, walk, house):
        """With their own file."""
        house.workflow("Child", ask())
        report = walk({"type": "CustomWorkflow", "workflowName": "Child"}).report()
        assert list(report.nodes) == [("Workflows/ana/Child.json", 1)]

    def test_a_node_can_be_tried_with_other_fields(self, walk):
        """No file is changed."""
        moving = walk(ask(lastMessagesToSendInsteadOfPrompt=20))
        steady = moving.report({("Workflows/ana/Main.json", 1): {"steadyWindow": True}})
        assert steady.read_chars < moving.report().read_chars / 2

    def test_a_branch_can_be_chosen(self, walk, house):
        """The names are those of the node."""
        for name in ("A", "B"):
            house.workflow(name, ask(latePrompt=name))
        branches = {"one": "A", "two": "B", "default": "A"}
        route = {"type": "ConditionalCustomWorkflow", "conditionalKey": "?", "conditionalWorkflows": branches}
        made = walk(route)
        router = ("Workflows/ana/Main.json", 1)
        assert made.report().routers == {router: ["one", "two", "default"]}
        assert list(made.report({router: {"conditionalKey": "two"}}).nodes) == [("Workflows/ana/B.json", 1)]

    def test_turns_and_short_conversations(self, walk):
        """There are no more turns than the conversation has."""
        assert walk(ask(), turns=5).report().turns == 5
        assert walk(ask(), say=say("a", "b", "c"), turns=5).report().turns == 2

    def test_nothing_is_written(self, walk, tmp_path):
        """The discussion is an empty one, and stays so."""
        talk = say("a[DiscussionId]d1[/DiscussionId]", "b", "c")
        walk(ask(addDiscussionIdTimestampsForLLM=True), say=talk).report()
        assert not (tmp_path / "DiscussionIds").exists()


MEMORY = {
    "endpointName": "chat",
    "systemPrompt": "Take notes.",
    "prompt": "Notes: [Memory_file] Excerpt: [TextChunk]",
    "chunkEstimatedTokenSize": 1500,
    "maxMessagesBetweenChunks": 8,
    "lookbackStartTurn": 4,
}
MAIN = "Workflows/ana/Main.json"


class TestWhatNodesRemember:
    """A discussion that is empty when the conversation begins, and gone when the walk ends."""

    @pytest.fixture
    def remembers(self, house):
        """With settings for memories and a compactor."""
        house.user["discussionIdMemoryFileWorkflowSettings"] = "Memory"
        house.user["contextCompactorSettingsFile"] = "Compactor"
        house.write("Workflows/ana/Memory", MEMORY)
        windows = {"recentContextTokens": 600, "oldContextTokens": 600}
        house.write("Workflows/ana/Compactor", {"endpointName": "chat", **windows})

    @pytest.mark.usefixtures("remembers")
    def test_memories_are_made_now_and_then(self, walk, house):
        """Their calls count where they are made, behind the answer, and no model is called."""
        report = walk(ask(returnToUser=True), {"type": "QualityMemory"}, turns=20).report()
        made = report.nodes[MAIN, 2]
        assert 3 <= made.calls <= 8 and made.chars / made.calls > 1000
        assert report.read_chars - report.waited_chars == made.new_chars
        assert house.model.calls == []

    @pytest.mark.usefixtures("remembers")
    def test_the_conversation_is_remembered_from_its_first_turn(self, walk):
        """So the last turn makes what it would, and not all notes at once."""
        report = walk(ask(returnToUser=True), {"type": "QualityMemory"}, turns=4).report()
        assert report.turns == 4
        assert report.nodes[MAIN, 2].calls <= 2

    @pytest.mark.usefixtures("remembers")
    def test_what_was_remembered_is_sent(self, walk):
        """The notes of earlier turns are in the next prompts."""
        notes = ask(latePrompt="Notes: {agent1Output}", returnToUser=True)
        read = {"type": "RecentMemorySummarizerTool", "maxTurnsToPull": 9, "maxSummaryChunksFromFile": 9}
        found = walk(read, notes, {"type": "QualityMemory"}).report().nodes[MAIN, 2]
        alone = walk(ask(latePrompt="Notes: none", returnToUser=True)).report().nodes[MAIN, 1]
        assert found.chars > alone.chars

    @pytest.mark.usefixtures("remembers")
    def test_the_compactor_counts(self, walk):
        """Up to three calls a turn."""
        report = walk(ask(returnToUser=True), {"type": "ContextCompactor"}).report()
        assert report.nodes[MAIN, 2].calls > 12

    @pytest.mark.usefixtures("remembers")
    def test_without_a_discussion_nothing_is(self, walk):
        """As in a request without an id."""
        nodes = ask(returnToUser=True), {"type": "QualityMemory"}
        assert list(walk(*nodes, has_discussion=False).report().nodes) == [(MAIN, 1)]

    @pytest.mark.usefixtures("remembers")
    def test_a_header_names_a_discussion(self, walk, house):
        """Where the user's clients send one, the messages need not."""
        house.user["discussionIdFromHeader"] = "X-Chat"
        nodes = ask(returnToUser=True), {"type": "QualityMemory"}
        assert (MAIN, 2) in walk(*nodes, has_discussion=False).report().nodes

    def test_chunks_are_handed_to_their_workflow_once(self, walk, house, tmp_path):
        """The cursor's file is the walk's own: the node's folder stays empty."""
        house.workflow("Chunk", ask(prompt="Keep {agent1Input}"))
        cursor = {"id": "c", "cursorDirectory": str(tmp_path / "cursors"), "chunkSize": 10}
        report = walk({"type": "ConversationChunkProcessor", "workflowName": "Chunk", **cursor}).report()
        assert report.nodes["Workflows/ana/Chunk.json", 1].calls in (2, 3)
        assert not (tmp_path / "cursors").exists()

    def test_no_server_makes_vectors(self, walk, house):
        """A search finds what words find; here there is nothing yet."""
        house.write("ApiTypes/Vectors", {"type": "openAIEmbeddings", "presetType": "any"})
        house.endpoint("vectors", apiTypeConfigFileName="Vectors")
        search = {"type": "VectorMemorySearch", "input": "ferry", "searchMode": "hybrid"}
        nodes = {**search, "embeddingEndpointName": "vectors"}, ask(latePrompt="{agent1Output}")
        assert list(walk(*nodes).report().nodes) == [(MAIN, 2)]


class TestReadAhead:
    def test_the_next_turns_prompt_is_read_behind_the_answer(self, walk):
        """So the user waits for the new message alone, although another node has taken the only place."""
        note = ask(prompt="Note {agent1Output}", systemPrompt="You take notes.")
        late = ask(returnToUser=True)
        without, ahead = (walk(node, note).report() for node in (late, {**late, "readAhead": "end"}))
        assert ahead.waited_chars < without.waited_chars / 20
        assert ahead.ahead[MAIN, 1].calls == 12
        assert ahead.read_chars == pytest.approx(without.read_chars, rel=0.05)

    def test_this_turns_prompt_is_read_beside_the_nodes_in_front(self, walk, house):
        """It counts as waited for: the call waits for its end."""
        house.endpoint("small", endpoint="http://small.test")
        front = {**ask(), "endpointName": "small"}
        report = walk(front, ask(latePrompt="{agent1Output}", readAhead="start")).report()
        assert report.ahead[MAIN, 2].new_chars > report.nodes[MAIN, 2].new_chars
        assert report.waited_chars == report.read_chars

    def test_a_node_in_front_at_the_same_server_stops_it(self, walk):
        """As its call would."""
        report = walk(ask(), ask(latePrompt="{agent1Output}", readAhead="start")).report()
        assert report.ahead == {}

    @pytest.mark.parametrize(
        "fields",
        [{"systemPrompt": "It is {current_time_24h}"}, {"prompt": "Answer"}],
        ids=["time-in-front", "prompt"],
    )
    def test_what_cannot_be_read_ahead_is_not(self, walk, fields):
        """By the rules of a run."""
        assert walk(ask(readAhead="end", **fields)).report().ahead == {}


class TestMeasuredWindow:
    """`wilmerContextEstimationLevel: measured`: the server is taken to count a token for four characters."""

    def report(self, walk, house, level: str):
        window = {"maxContextTokenSize": 4000, "clampPromptToContextWindow": True}
        house.endpoint("chat", wilmerContextEstimationLevel=level, **window)
        return walk(ask(maxResponseSizeInTokens=500)).report()

    def test_what_fits_is_sent(self, walk, house):
        """And not what our careful estimate would leave of it."""
        measured, careful = (self.report(walk, house, level) for level in ("measured", "conservative"))
        assert measured.nodes[MAIN, 1].chars > 1.1 * careful.nodes[MAIN, 1].chars
        assert measured.nodes[MAIN, 1].chars / 12 <= 3500 * 4

    def test_each_walk_learns_by_itself(self, walk, house):
        """A second one gives the same, and a running server learns nothing of it."""
        forget_ratios()
        first, second = (self.report(walk, house, "measured").read_chars for _ in range(2))
        assert first == second
        assert token_ratios()._samples == {}
