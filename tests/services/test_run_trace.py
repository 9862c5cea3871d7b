"""What a run tells its observers, and what it costs when there are none."""

from __future__ import annotations

import logging

import pytest

from Middleware.common.request_context import RequestContext
from Middleware.services.chat_marks import mark_of_chat
from Middleware.services.kept_bodies import BODY_LIMIT, HEAD_BYTES
from Middleware.services.node_trace import CallTrace, NodeTrace
from Middleware.services.run_trace import Observers, TracedBranch


class Seen:
    """Writes down what it is told."""

    def __init__(self, keeps_text=False, fails=False):
        self.keeps_text, self._fails = keeps_text, fails
        self.told = []

    def note_change(self, run, what, node):
        self.told.append((what, node.title if node else None))
        if self._fails:
            raise KeyError("a fault of the observer")


class Sent:
    """An answer on its way out."""

    def __init__(self, words):
        self._words = words

    def pieces(self):
        return len(self._words.split())

    def text(self):
        return self._words


def request(**facts):
    return RequestContext("r1", "mira", "ollamaapichat", **facts)


def named(run, **facts):
    run.name(request(**facts), front="Ollama chat", stream=True, asked=b'{"a":1}')
    return run


@pytest.fixture
def observers():
    return Observers()


class TestObservers:
    def test_nobody_observes(self, observers):
        """Then there is no trace at all."""
        assert observers.begin("r1", "/api/chat") is None

    def test_a_name_that_fell_back_is_kept(self, observers):
        """Also when the request waited and was named twice (workbench.md 15)."""
        observers.observe(Seen())
        run = observers.begin("r1", "/api/chat")
        run.note_asked_name("gpt-4")
        run.note_waiting(request(fell_back=True), front="Ollama chat", stream=True, text="Hi")
        assert (run.model, run.fell_back) == ("mira", "gpt-4")
        assert (named(run, fell_back=True).model, run.fell_back) == ("mira", "gpt-4")
        assert named(observers.begin("r2", "/api/chat")).fell_back == ""

    def test_an_observer_sees_what_begins_after_it(self, observers):
        """And nothing more when it has ended."""
        seen = Seen()
        end = observers.observe(seen)
        run = observers.begin("r1", "/api/chat")
        run.begin()
        end()
        run.end("done")
        assert seen.told == [("arrived", None), ("begun", None)]

    def test_an_observer_of_some_changes_is_told_of_no_others(self, observers):
        """It ends as any other, and those that want all are told of all."""
        some, every = Seen(), Seen()
        some.changes = ("ended",)
        end = observers.observe(some)
        observers.observe(every)
        observers.begin("r1", "/api/chat").end("done")
        end()
        observers.begin("r2", "/api/chat").end("done")
        assert [what for what, _ in some.told] == ["ended"]
        assert [what for what, _ in every.told] == ["arrived", "ended", "arrived", "ended"]

    def test_one_that_raises_is_dropped(self, observers, caplog):
        """Logged once; the others, and the run, do not feel it."""
        wrong, good = Seen(fails=True), Seen()
        observers.observe(wrong)
        observers.observe(good)
        with caplog.at_level(logging.ERROR):
            observers.begin("r1", "/api/chat").end("done")
        assert [what for what, _ in good.told] == ["arrived", "ended"]
        assert len(wrong.told) == 1
        assert [r.getMessage() for r in caplog.records] == ["Seen failed and will not observe further runs"]


class TestTexts:
    @pytest.mark.parametrize(
        ("keepers", "privacy", "kept"),
        [((False,), False, False), ((False, True), False, True), ((True,), True, False)],
        ids=["nobody-wants-them", "one-wants-them", "private"],
    )
    def test_whether_they_are_kept(self, observers, keepers, privacy, kept):
        """Settled when the run's user is known: some observer keeps text, and the run is not private."""
        for keeps_text in keepers:
            observers.observe(Seen(keeps_text))
        run = observers.begin("r1", "/api/chat")
        before = run.keeps_text
        named(run, privacy=privacy)
        assert (before, run.keeps_text, run.asked) == (False, kept, b'{"a":1}' if kept else b"")

    @pytest.mark.parametrize("extra", [0, 1, 200_000])
    def test_long_bodies_of_calls_lose_their_middle(self, observers, extra):
        """The first 96 and the last 32 KiB are held."""
        observers.observe(Seen(keeps_text=True))
        body = (b"h" * HEAD_BYTES) + b"m" * extra + b"t" * (BODY_LIMIT - HEAD_BYTES)
        run = observers.begin("r1", "/api/chat")
        run.name(request(), front="Ollama chat", stream=True, asked=body)
        call = run.node(NodeTrace("w", 1, "Standard")).call(CallTrace("model", "Big", "x", "m"))
        call.note_body("http://h/1", body, {})
        kept = (b"h" * 98_304 + b"t" * 32_768, extra)
        assert (run.asked, run.asked_left_out) == (body, 0)  # the client's is whole
        assert (call.call.body, call.call.body_left_out) == kept

    def test_secrets_are_not_shown(self):
        """Neither the key nor what was sent with it."""
        call = CallTrace("model", "Big", "x", "m", headers={"Authorization": "Bearer abc"}, secrets=("abc",))
        assert "abc" not in repr(call)

    @pytest.mark.parametrize(
        ("facts", "kept"),
        [
            ({"api_key": "abc"}, ("abc",)),
            ({}, ()),
            ({"api_key": ""}, ()),
            ({"api_key": "abc", "privacy": True}, ()),
        ],
        ids=["key", "no-key", "empty-key", "private"],
    )
    def test_the_key_of_the_client_is_what_nobody_may_read(self, observers, facts, kept):
        """Of a private request not even the key is kept: there is no text that it could stand in."""
        observers.observe(Seen(keeps_text=True))
        run = named(observers.begin("r1", "/api/chat"), **facts)
        assert run.secrets == kept
        assert "abc" not in repr(run)


class TestRun:
    def test_its_facts(self, observers):
        """Who asked, how, and for which model."""
        observers.observe(Seen())
        run = named(observers.begin("r1", "/api/chat"), workflow_folder="novel", task="title_generation")
        assert (run.id, run.path, run.user, run.model) == ("r1", "/api/chat", "mira", "mira:novel")
        assert (run.front, run.api_type, run.stream, run.task) == (
            "Ollama chat",
            "ollamaapichat",
            True,
            "title_generation",
        )

    def test_its_states_and_times(self, observers):
        """Each time is set once, in order; what is not yet is 0."""
        seen = Seen()
        observers.observe(seen)
        run = observers.begin("r1", "/api/chat")
        run.keeps_text = True
        states = [run.state]
        run.begin()
        states.append(run.state)
        at = run.node(NodeTrace("Workflows/mira/Main.json", 1, "Standard", "Answer"))
        at.note_first_text(Sent("one two"))
        states.append(run.state)
        assert at.node.state == "answering"
        sent = run.counter(), run.text_so_far()
        at.note_first_text(Sent("three"))
        run.answer()
        run.answer()
        states.append(run.state)
        run.end("done")
        assert [*states, run.state] == ["waiting", "running", "answering", "finishing", "done"]
        assert 0 < run.arrived <= run.begun <= run.first_text <= run.answered <= run.ended
        assert (sent, run.counter, run.text_so_far) == ((2, "one two"), None, None)
        assert [what for what, _ in seen.told] == [
            "arrived",
            "begun",
            "node",
            "first_text",
            "answered",
            "ended",
        ]

    @pytest.mark.parametrize("state", ["failed", "went_on", "kept", "running"])
    def test_only_a_node_that_runs_is_answering(self, observers, state):
        """One that has ended has ended."""
        observers.observe(Seen())
        run = observers.begin("r1", "/api/chat")
        at = run.node(NodeTrace("w", 1, "Standard", state=state))
        at.note_first_text(None)
        assert at.node.state == ("answering" if state == "running" else state)
        assert (run.counter, run.text_so_far, run.state) == (None, None, "answering")

    def test_a_text_may_come_from_no_node(self, observers):
        seen = Seen()
        observers.observe(seen)
        run = observers.begin("r1", "/api/chat")
        run.note_first_text(Sent("one two"))
        assert seen.told[-1] == ("first_text", None) and run.first_text
        assert run.counter() == 2 and run.text_so_far is None  # nobody keeps texts

    def test_when_it_asks_for_a_slot(self, observers):
        """Before it gets one."""
        observers.observe(Seen())
        run = observers.begin("r1", "/api/chat")
        assert run.queued == 0.0
        run.enter_line()
        run.begin()
        assert 0 < run.arrived <= run.queued <= run.begun

    def test_it_settles_behind_its_end(self, observers):
        seen = Seen()
        observers.observe(seen)
        run = observers.begin("r1", "/api/chat")
        run.end("done")
        run.settle()
        assert [what for what, _ in seen.told] == ["arrived", "ended", "settled"]

    @pytest.mark.parametrize("private", [False, True])
    def test_where_its_chat_is(self, observers, private):
        """Of a private one there is a mark, and neither its id nor its folder."""
        observers.observe(Seen())
        run = named(observers.begin("r1", "/api/chat"), privacy=private)
        run.runs("Main", answers=False, discussion="d")
        run.note_chat("d", "62af8704764faf8e", 3)
        facts = (run.turn, run.discussion, run.chat_folder, run.chat_mark)
        assert facts == (
            (3, "", None, mark_of_chat("mira", "d")) if private else (3, "d", "62af8704764faf8e", "")
        )
        assert run.answering == ""

    def test_without_a_chat(self, observers):
        observers.observe(Seen())
        run = named(observers.begin("r1", "/api/chat"))
        run.runs("Main", answers=True, discussion=None)
        assert (run.discussion, run.chat_folder, run.chat_mark, run.turn) == ("", None, "", 0)

    @pytest.mark.parametrize("keeps_text", [False, True])
    def test_headers_are_kept_where_texts_are(self, observers, keeps_text):
        observers.observe(Seen(keeps_text))
        run = observers.begin("r1", "/api/chat")
        run.name(request(), front="x", stream=True, asked=b"", headers={"X-A": "1"})
        assert run.headers == ({"X-A": "1"} if keeps_text else {})

    def test_the_first_workflow_and_the_one_that_answers(self, observers):
        """With routing they are two."""
        observers.observe(Seen())
        run = observers.begin("r1", "/api/chat")
        run.runs("Router", answers=False)
        run.runs("Code", answers=True)
        assert (run.workflow, run.answering) == ("Router", "Code")


class TestNode:
    @pytest.mark.parametrize(
        ("state", "ended"), [("running", "done"), ("answering", "done"), ("failed", "failed")]
    )
    def test_its_end(self, state, ended):
        """What has no worse state is done."""
        node = NodeTrace("w", 1, "Standard", state=state)
        before = node.seconds
        node.end()
        assert (before, node.state) == (0.0, ended) and node.seconds > 0

    @pytest.mark.parametrize("private", [False, True])
    def test_a_second_body_is_told(self, observers, private):
        """The trace holds what was sent last, and the node says that there was more; private: no word of it."""
        observers.observe(Seen(keeps_text=True))
        run = named(observers.begin("r1", "/api/chat"), privacy=private)
        at = run.node(NodeTrace("w", 1, "Standard", "Answer"))
        call = at.call(CallTrace("model", "Big", "x", "m"))
        call.note_body("http://h/1", b"one", {"A": "1"})
        before = list(run.nodes[0].warnings)
        call.note_body("http://h/2", b"two", {"A": "2"}, amended=True)
        call.end("stop")
        assert (call.call.url, call.call.tries, call.call.outcome) == ("http://h/2", 2, "stop")
        assert call.call.headers == (None if private else {"A": "2"})
        assert call.call.begun <= call.call.sent <= call.call.ended
        call.end("done", 5.0)
        assert call.call.ended == 5.0
        assert call.call.body == (b"" if private else b"two") and run.nodes[0].calls == [call.call]
        told = [] if private else ["endpoint 'Big' refused a request body and was sent another one"]
        assert (before, run.nodes[0].warnings) == ([], told)

    def test_its_first_thought(self, observers):
        """Told once for each call; that of the last call to a model, where a node has several."""
        seen = Seen()
        observers.observe(seen)
        run = observers.begin("r1", "/api/chat")
        at = run.node(NodeTrace("w", 1, "Standard", "Answer"))
        first, last = (at.call(CallTrace("model", "Big", "x", "m")) for _ in range(2))
        at.call(CallTrace("http", "", "h", ""))
        last.note_thought()
        since = last.call.thought
        last.note_thought()
        at.note_thought()
        assert (first.call.thought, last.call.thought) == (0.0, since) and since > 0
        assert [told for told in seen.told if told[0] == "first_thought"] == [("first_thought", "Answer")]

    def test_a_thought_that_was_none(self, observers):
        """It turned out to be text."""
        observers.observe(Seen())
        at = observers.begin("r1", "/api/chat").node(NodeTrace("w", 1, "Standard"))
        call = at.call(CallTrace("model", "Big", "x", "m"))
        call.note_thought()
        at.thought_nothing()
        assert call.call.thought == 0.0

    def test_thoughts_of_a_node_without_a_call(self, observers):
        """Nobody thought."""
        seen = Seen()
        observers.observe(seen)
        at = observers.begin("r1", "/api/chat").node(NodeTrace("w", 1, "StaticResponse"))
        at.note_thought()
        at.thought_nothing()
        assert [what for what, _ in seen.told] == ["arrived", "node"]

    def test_cleaning_of_a_node_without_a_call(self):
        """There is no call that could hold it."""
        node = NodeTrace("w", 1, "StaticResponse")
        node.note_cleaning("a", "b", [], None)
        assert node.calls == []


@pytest.mark.parametrize(
    ("usage", "seconds"),
    [
        (None, None),
        ({}, None),
        ({"prompt_duration_ns": 1_500_000_000}, 1.5),
        ({"prompt_duration_ns": "x"}, None),
    ],
)
def test_how_long_a_prompt_was_read(usage, seconds):
    """If the backend says so."""
    assert CallTrace("model", "Big", "x", "m", usage=usage).prompt_s == seconds


@pytest.mark.parametrize(("thinking", "thoughts"), [("hm", ["hm"]), ("", [])])
def test_an_answer_as_it_came(observers, thinking, thoughts):
    """Of the last call to a model, where texts are kept; what was read ahead of it is no answer."""
    observers.observe(Seen(keeps_text=True))
    run = named(observers.begin("r1", "/api/chat"))
    at = run.node(NodeTrace("w", 1, "Standard"))
    calls = [at.call(CallTrace(kind, "Big", "x", "m")).call for kind in ("model", "model", "embedding")]
    at.note_answer("Hello", thinking)
    assert [(call.raw, call.cleaned, call.thoughts) for call in calls] == [
        (None, None, []),
        ("Hello", "Hello", thoughts),
        (None, None, []),
    ]


def test_an_answer_that_nobody_keeps(observers):
    observers.observe(Seen(keeps_text=False))
    at = named(observers.begin("r1", "/api/chat")).node(NodeTrace("w", 1, "Standard"))
    call = at.call(CallTrace("model", "Big", "x", "m")).call
    at.note_answer("Hello", "hm")
    assert (call.raw, call.thoughts) == (None, [])


class TestWaiting:
    """A request that waits for a slot has a name, and where texts are kept the beginning of what was said."""

    TEXT = "Where does the ferry go? " * 9

    def waiting(self, observers, *, keeps_text=True, **facts):
        observers.observe(Seen(keeps_text=keeps_text))
        run = observers.begin("r1", "/api/chat")
        run.note_waiting(request(**facts), front="Ollama chat", stream=True, text=self.TEXT)
        return run

    def test_it_is_named(self, observers):
        run = self.waiting(observers, workflow_folder="big")
        assert (run.user, run.model, run.front, run.state) == ("mira", "mira:big", "Ollama chat", "waiting")
        assert run.said == self.TEXT[:80].strip()

    @pytest.mark.parametrize(
        "facts", [{"privacy": True}, {"keeps_text": False}], ids=["private", "nobody-keeps-texts"]
    )
    def test_without_a_text(self, observers, facts):
        assert self.waiting(observers, **facts).said == ""

    def test_it_stays_when_it_waits_no_more(self, observers):
        """It tells runs apart (workbench.md 12); of a private one there never is any."""
        run = self.waiting(observers)
        run.begin()
        assert run.said == self.TEXT[:80].strip()
        run.name(request(), front="x", stream=True, asked=b"", said="one\n  line")
        assert run.said == "one line"
        run.name(request(), front="x", stream=True, asked=b"", said="a" + " " * 160 + "b")
        assert run.said == "a"  # what is far off is not looked at
        run.name(request(privacy=True), front="x", stream=True, asked=b"", said="secret")
        assert run.said == ""

    @pytest.mark.parametrize(
        ("name", "shown"), [("a\nb", "a?b"), ("x" * 300, "x" * 200), (None, ""), (7, "")]
    )
    def test_the_name_that_was_asked(self, observers, name, shown):
        """Until it is known who that is; a name that nobody has stays (workbench.md 12)."""
        observers.observe(Seen())
        run = observers.begin("r1", "/api/chat")
        run.note_asked_name(name)
        assert run.model == shown


def test_a_call_that_waits_is_told_twice(observers):
    """When it begins to wait, and when that is over; what waits for nothing is not."""
    seen = Seen()
    observers.observe(seen)
    traced = observers.begin("r1", "/api/chat").node(
        NodeTrace("Workflows/mira/Chat.json", 1, "Standard", "A")
    )
    traced.end_wait()
    traced.begin_wait("a slot of Big")
    assert [wait.what for wait in traced.node.waits if not wait.ended] == ["a slot of Big"]
    traced.end_wait()
    traced.end_wait()
    assert traced.node.waits[0].ended
    assert seen.told[2:] == [("wait", "A"), ("wait", "A")]


class TestBranches:
    """Several chains of calls of one node at the same time."""

    def test_each_knows_its_own_calls(self, observers):
        """And the node knows them all."""
        observers.observe(Seen(keeps_text=True))
        at = named(observers.begin("r1", "/")).node(NodeTrace("w", 1, "Candidates"))
        one, other = TracedBranch(*at), TracedBranch(*at)
        first = one.call(CallTrace("model", "Big", "x", "m")).call
        second = other.call(CallTrace("model", "Small", "x", "m")).call
        one.note_answer("one", "")
        other.note_cleaning("two", "2", [], None)
        assert at.node.calls == [first, second]
        assert [(call.raw, call.cleaned) for call in at.node.calls] == [("one", "one"), ("two", "2")]
        assert (one.last_model_call, other.last_model_call) == (first, second)

    def test_each_ends_its_own_waiting(self, observers):
        """That of the other goes on."""
        observers.observe(Seen())
        at = observers.begin("r1", "/").node(NodeTrace("w", 1, "Candidates"))
        one, other = TracedBranch(*at), TracedBranch(*at)
        one.begin_wait("a slot of Big")
        other.begin_wait("a slot of Small")
        one.end_wait()
        assert [(wait.what, bool(wait.ended)) for wait in at.node.waits] == [
            ("a slot of Big", True),
            ("a slot of Small", False),
        ]
