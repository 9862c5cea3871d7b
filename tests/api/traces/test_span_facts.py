"""What the spans of a run are: their tree, names, times, attributes, and what they never hold."""

from __future__ import annotations

import gc
import types

import pytest

from Middleware.api.traces import conventions as words
from Middleware.api.traces.span_facts import OF_REQUEST, count_spans, late_spans, trace_of
from Middleware.common.errors import KIND_STATUS
from Middleware.services.node_trace import CallTrace, NodeTrace
from Middleware.services.run_trace import RunTrace
from tests.api.traces.runs import ARRIVED, NS, WALL, Watcher, a_call, a_node, a_run, end

START = int(WALL) * NS
USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "cached_tokens": 3, "cache_write_tokens": 2}


def spans(run, *, with_texts=False):
    return trace_of(run, with_texts=with_texts).spans


def sent(span):
    """As it is sent: attributes and events are put together then."""
    span.finish(())
    return span


def after(seconds):
    return START + int(seconds * NS)


class TestTree:
    def test_request_nodes_and_calls(self):
        """A node hangs at the request, a call at its node, a nested node at the one that called its workflow."""
        run = a_run()
        outer = a_node(run, 1, "Ask")
        a_call(outer)
        inner = a_node(run, 1, "Inner", parent=outer, depth=1)
        a_call(inner, model="n")
        made = spans(end(run))
        assert [(span.name, span.kind, span.parent) for span in made] == [
            ("invoke_workflow mira/Main", "SERVER", OF_REQUEST),
            ("Ask", "INTERNAL", OF_REQUEST),
            ("chat m", "CLIENT", 1),
            ("Inner", "INTERNAL", 1),
            ("chat n", "CLIENT", 3),
        ]
        assert count_spans(run) == len(made)

    def test_a_parallel_group(self):
        """Nodes that ran side by side are siblings that overlap, and say so."""
        run = a_run()
        for number in (1, 2):
            a_node(run, number, f"Part {number}", group="both", begun=ARRIVED + 1, ended=ARRIVED + 3)
        first, second = spans(end(run))[1:]
        assert first.begun == second.begun
        assert {sent(span).attributes[words.NODE_GROUP] for span in (first, second)} == {"both"}
        assert {span.parent for span in (first, second)} == {OF_REQUEST}

    def test_a_node_without_a_title(self):
        """Has the name of its type."""
        run = a_run()
        a_node(run, title="")
        assert spans(end(run))[1].name == "Standard"

    def test_one_that_was_refused(self):
        """A request that came to no workflow is a trace of one span."""
        run = a_run(user="", workflow="", answering="", status=404, error="no such model")
        [span] = spans(end(run, "refused"))
        assert (span.name, span.error, span.said) == ("invoke_workflow", "404", "no such model")

    def test_what_ends_behind_the_run(self):
        """A prompt that is read ahead gets its span when it has ended, below the same node."""
        run = a_run()
        node = a_node(run)
        a_call(node)
        ahead = a_call(node, "prefill", ended=0.0)
        known = trace_of(end(run), with_texts=False)
        assert len(known.spans) == 3
        assert late_spans(run, known, with_texts=False) == []
        ahead.ended = run.ended + 5
        [late] = late_spans(run, known, with_texts=False)
        assert (late.name, late.attributes[words.CALL_KIND], late.parent) == ("chat m", "prefill", 1)
        assert late.ended == after(15)

    def test_a_call_that_never_ended(self):
        """Of a run that was given up: it ends with its run."""
        run = a_run()
        a_call(a_node(run, state="cancelled"), ended=0.0, outcome="")
        made = spans(end(run, "cancelled"))
        assert made[2].ended == after(10)
        assert [span.error for span in made] == ["", "", ""]


class TestTimes:
    def test_they_are_of_the_clock_at_the_arrival(self):
        """A clock that is set while a run lasts moves none of its spans."""
        run = a_run()
        a_call(a_node(run, 2))
        request, node, call = spans(end(run))
        assert (request.begun, request.ended) == (START, after(10))
        assert (node.begun, node.ended) == (after(2), after(3))
        assert (call.begun, call.ended) == (after(2.25), after(2.75))

    def test_none_ends_before_it_begins(self):
        """Whatever a thread wrote last."""
        run = a_run()
        a_node(run, begun=ARRIVED + 5, ended=ARRIVED + 4)
        node = spans(end(run))[1]
        assert node.ended == node.begun == after(5)

    def test_a_node_that_never_ended(self):
        """It ends with its run."""
        run = a_run()
        a_node(run, ended=0.0, state="running")
        assert spans(end(run))[1].ended == after(10)


class TestRequest:
    def test_its_attributes(self):
        """Who asked for what, how it came and went, and what all of it took."""
        run = a_run(whole_usage={"prompt_tokens": 90, "completion_tokens": 40, "calls": 3}, status=200)
        run.task = "title"
        [span] = map(sent, spans(end(run)))
        assert span.attributes == {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": "Main",
            "gen_ai.conversation.id": "trip3",
            "gen_ai.usage.input_tokens": 90,
            "gen_ai.usage.output_tokens": 40,
            "http.response.status_code": 200,
            "headrace.request_id": "r1",
            "headrace.front": "OpenAI chat",
            "headrace.user": "mira",
            "headrace.asked_model": "mira",
            "headrace.state": "done",
            "headrace.task": "title",
            "headrace.calls": 3,
        }

    def test_when_its_client_got_its_text(self):
        """The first word and the end of the answer, as events."""
        run = a_run(first_text=ARRIVED + 2, answered=ARRIVED + 4)
        assert sent(spans(end(run))[0]).events == [("first_text", after(2), {}), ("answered", after(4), {})]

    @pytest.mark.parametrize(
        ("state", "kind"), [("done", ""), ("cancelled", ""), ("failed", "timeout"), ("refused", "timeout")]
    )
    def test_only_failures_are_errors(self, state, kind):
        """Their kind is that of the node that failed."""
        run = a_run(error="it took too long", status=504)
        a_node(run, state="failed", error="too long", error_kind="timeout")
        span = spans(end(run, state))[0]
        assert (span.error, span.said) == (kind, "it took too long" if kind else "")

    def test_who_cancelled_it(self):
        """In the words of the run."""
        run = a_run(cancelled_by="the client hung up")
        assert sent(spans(end(run, "cancelled"))[0]).attributes[words.CANCELLED_BY] == "the client hung up"


class TestNode:
    def test_its_attributes(self):
        """Type, number, file and state; of an agent its steps and the limit that ended it."""
        run = a_run()
        a_node(run, 2, steps=4, limit="maxSteps", answers=True)
        assert sent(spans(end(run))[1]).attributes == {
            "headrace.node.type": "Standard",
            "headrace.node.number": 2,
            "headrace.node.state": "done",
            "headrace.node.workflow": "Workflows/mira/Main.json",
            "headrace.node.answers": True,
            "headrace.node.steps": 4,
            "headrace.node.limit": "maxSteps",
        }

    def test_its_warnings(self):
        """Events at its end."""
        run = a_run()
        a_node(run, warnings=["a tag is missing"])
        assert sent(spans(end(run))[1]).events == [
            ("warning", after(2), {"headrace.message": "a tag is missing"})
        ]

    @pytest.mark.parametrize("state", ["failed", "went_on", "refused"])
    def test_one_that_failed(self, state):
        """Also where the run went on."""
        run = a_run()
        a_node(run, state=state, error="no", error_kind="ConfigError")
        assert (spans(end(run))[1].error, spans(end(run))[1].said) == ("ConfigError", "no")


class TestModelCall:
    def test_its_attributes(self):
        """What was asked for, who answered, how it ended and what it took."""
        run = a_run()
        a_call(
            a_node(run),
            usage=USAGE,
            finish_reason="length",
            outcome="length",
            answered_by="m-2026",
            numbers={"temperature": 1, "top_k": 40.0, "sampler_seed": 7, "top_p": float("inf")},
            max_tokens=400,
            stream=True,
            first=ARRIVED + 1.5,
            tries=2,
            backup_of="Small",
            chosen=True,
        )
        assert sent(spans(end(run))[2]).attributes == {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "m",
            "gen_ai.request.stream": True,
            "gen_ai.request.max_tokens": 400,
            "gen_ai.request.temperature": 1.0,
            "gen_ai.request.top_k": 40,
            "gen_ai.request.seed": 7,
            "gen_ai.response.model": "m-2026",
            "gen_ai.response.finish_reasons": ("length",),
            "gen_ai.response.time_to_first_chunk": 0.25,
            "gen_ai.usage.input_tokens": 9,
            "gen_ai.usage.output_tokens": 4,
            "gen_ai.usage.cache_read.input_tokens": 3,
            "gen_ai.usage.cache_creation.input_tokens": 2,
            "server.address": "127.0.0.1",
            "server.port": 8080,
            "headrace.call.endpoint": "Big",
            "headrace.call.tries": 2,
            "headrace.call.backup_of": "Small",
            "headrace.call.chosen": True,
        }

    @pytest.mark.parametrize(
        ("facts", "events"),
        [
            ({}, []),
            ({"first": ARRIVED + 1.5}, [("first_text", after(1.5), {})]),
            ({"first": ARRIVED + 1.5, "thought": ARRIVED + 1.5}, [("first_thought", after(1.5), {})]),
        ],
        ids=["whole", "streamed", "thinks"],
    )
    def test_its_first_outputs(self, facts, events):
        """Of an answer in one piece nothing is known; behind a thought the first text is not."""
        run = a_run()
        a_call(a_node(run), **facts)
        assert sent(spans(end(run))[2]).events == events

    def test_the_first_text_behind_a_thought(self):
        """Of the call that answers it is the client's."""
        run = a_run(first_text=ARRIVED + 1.7)
        a_call(a_node(run, answers=True), first=ARRIVED + 1.5, thought=ARRIVED + 1.5)
        assert [name for name, _, _ in sent(spans(end(run))[2]).events] == ["first_thought", "first_text"]

    @pytest.mark.parametrize("kind", sorted(KIND_STATUS))
    def test_every_kind_of_failure(self, kind):
        """Is the type of the error, with the sentence about it."""
        run = a_run()
        a_call(a_node(run), outcome=kind, error="the backend said no")
        span = spans(end(run))[2]
        assert (span.error, span.said) == (kind, "the backend said no")

    @pytest.mark.parametrize(
        "outcome", ["stop", "tool_calls", "content_filter", "cancelled", "closed", "dropped", "None", ""]
    )
    def test_what_is_no_failure(self, outcome):
        """A call that was ended, or that came to its end."""
        run = a_run()
        a_call(a_node(run), outcome=outcome, error="said in passing")
        span = spans(end(run))[2]
        assert (span.error, span.said) == ("", "")

    @pytest.mark.parametrize(
        ("url", "backend", "provider"),
        [
            ("https://api.openai.com/v1/chat/completions", "openAIChatCompletion", "openai"),
            ("https://mine.openai.azure.com/openai", "openAIChatCompletion", "azure.ai.openai"),
            ("https://api.deepseek.com/chat", "openAIChatCompletion", "deepseek"),
            ("https://notapi.openai.com.example.org/", "claudeMessages", "anthropic"),
            ("http://127.0.0.1:11434/api/chat", "ollamaApiChat", "ollama"),
            ("", "builtInDemo", "headrace"),
            ("", "somethingNew", "_OTHER"),
        ],
    )
    def test_its_provider(self, url, backend, provider):
        """By its host, else by its protocol."""
        run = a_run()
        a_call(a_node(run), url=url, backend=backend)
        assert sent(spans(end(run))[2]).attributes[words.PROVIDER_NAME] == provider

    @pytest.mark.parametrize(
        ("url", "place"),
        [
            ("https://user:hunter2@host.example/v1?key=abc", ("host.example", 443)),
            ("http://[::1]:5001/api", ("::1", 5001)),
            ("http://host:99999/", (None, None)),
            ("not an address", (None, None)),
        ],
    )
    def test_its_server(self, url, place):
        """Host and port, and nothing else of an address."""
        run = a_run()
        a_call(a_node(run), url=url)
        told = sent(spans(end(run))[2]).attributes
        assert (told.get(words.SERVER_ADDRESS), told.get(words.SERVER_PORT)) == place

    @pytest.mark.parametrize("count", [None, "7", True, -1, 2**80, 1.5])
    def test_odd_counts_of_tokens(self, count):
        """A number that is none is not sent."""
        run = a_run()
        a_call(a_node(run), usage={"prompt_tokens": count})
        assert words.INPUT_TOKENS not in sent(spans(end(run))[2]).attributes

    @pytest.mark.parametrize("number", [float("nan"), float("-inf"), 2**80, 1e300])
    def test_odd_samplers(self, number):
        """Nor are samplers that no field can hold."""
        run = a_run()
        a_call(a_node(run), numbers={"temperature": number, "seed": number})
        told = sent(spans(end(run))[2]).attributes
        assert not {"gen_ai.request.temperature", "gen_ai.request.seed"} & told.keys()


class TestOtherCalls:
    def test_an_embedding(self):
        """Has a model and tokens, and no samplers."""
        run = a_run()
        a_call(a_node(run), "embedding", outcome="3 texts", usage={"prompt_tokens": 12}, model="e")
        span = spans(end(run))[2]
        assert (span.name, span.kind, span.error) == ("embeddings e", "CLIENT", "")
        assert sent(span).attributes[words.INPUT_TOKENS] == 12
        assert words.REQUEST_STREAM not in span.attributes

    @pytest.mark.parametrize(
        ("kind", "tool", "backend", "name"),
        [
            ("mcp", "search", "search", "execute_tool search"),
            ("workflow", "ask_expert", "ask_expert", "execute_tool ask_expert"),
            ("mcp", None, "notes/read", "execute_tool notes/read"),
            ("http", None, "example.org", "execute_tool example.org"),
            ("command", None, "curl", "execute_tool curl"),
            ("script", None, "sums.py", "execute_tool sums.py"),
            ("tool", "", "a tool that is not there", "execute_tool a tool that is not there"),
        ],
    )
    def test_a_tool(self, kind, tool, backend, name):
        """Whoever calls it: an agent, or a node."""
        run = a_run()
        a_call(a_node(run), kind, tool=tool, backend=backend, outcome="done", model="")
        span = spans(end(run))[2]
        assert (span.name, span.kind, span.error) == (name, "CLIENT", "")
        assert f"execute_tool {span.attributes[words.TOOL_NAME]}" == name

    @pytest.mark.parametrize("outcome", ["failed", "timeout", "refused", "ConfigError"])
    def test_a_tool_that_failed(self, outcome):
        """Its outcome is the type of the error."""
        run = a_run()
        a_call(a_node(run), "mcp", tool="search", outcome=outcome, error="no such page")
        span = spans(end(run))[2]
        assert (span.error, span.said) == (outcome, "no such page")


class TestTexts:
    def test_only_where_they_are_wanted(self):
        """A run keeps texts for the console, too: that is not to send them."""
        run = a_run(asked=b'{"messages":[]}')
        a_call(a_node(run), body=b"{}", cleaned="said")
        assert [span.texts for span in spans(end(run))] == [None] * 3
        assert [span.texts is None for span in spans(run, with_texts=True)] == [False, True, False]

    def test_never_of_private_users(self):
        """Not even what a fault elsewhere left in the trace; nor the id of the conversation."""
        run = a_run(privacy=True)
        run.keeps_text, run.asked = True, b'{"messages":[]}'
        a_call(a_node(run, output="said"), body=b"{}", cleaned="said")
        made = spans(end(run), with_texts=True)
        assert [span.texts for span in made] == [None] * 3
        assert words.CONVERSATION_ID not in sent(made[0]).attributes

    def test_not_of_a_run_that_keeps_none(self):
        """Nobody wanted them when it began."""
        run = a_run(Watcher(keeps_text=False))
        a_call(a_node(run))
        assert [span.texts for span in spans(end(run), with_texts=True)] == [None] * 3

    def test_a_span_holds_no_run(self):
        """Spans may wait for minutes: a run that is over can go."""
        run = a_run(asked=b'{"messages":[]}')
        node = a_node(run, output="said", fields={"prompt": "long"})
        a_call(node, body=b"{}", cleaned="said")
        made = spans(end(run), with_texts=True)
        assert not [one for one in _reachable(made) if isinstance(one, (RunTrace, NodeTrace, CallTrace))]


def _reachable(things):
    """All that these keep alive, but for modules and classes."""
    seen, left = {}, list(things)
    while left:
        one = left.pop()
        if id(one) not in seen and not isinstance(one, (type, types.ModuleType)):
            seen[id(one)] = one
            left += gc.get_referents(one)
    return list(seen.values())


class TestFinish:
    def test_secrets_are_masked(self):
        """In sentences, warnings and texts: the keys of the run, and those of the server."""
        run = a_run(asked=b'{"messages":[{"role":"user","content":"my key is hunter2hunter2"}]}')
        node = a_node(run, state="failed", error="no: hunter2hunter2", warnings=["house-key-1234567"])
        a_call(node, secrets=("hunter2hunter2",), body=b"{}", cleaned="said hunter2hunter2")
        told = []
        for span in spans(end(run, "failed"), with_texts=True):
            span.finish(("house-key-1234567",))
            told.append(repr((span.said, span.attributes, span.events)))
        assert "hunter2" not in "".join(told)
        assert "house-key" not in "".join(told)
        assert "".join(told).count("***") == 4

    def test_half_a_pair_of_surrogates(self):
        """A name from a file may hold one; UTF-8 cannot."""
        run = a_run()
        a_node(run, title="bad \ud800", warnings=["\udfff"])
        span = spans(end(run))[1]
        span.finish(())
        assert (span.name, span.events[0][2][words.MESSAGE]) == ("bad ?", "?")
