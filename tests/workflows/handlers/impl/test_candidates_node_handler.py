"""Candidates: several answers side by side, and one result; in whole runs, streamed and not."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace

import pytest
from jsonschema import Draft202012Validator

from Middleware.common.errors import (
    BackendError,
    ConfigError,
    RequestCancelled,
    WorkflowError,
)
from Middleware.common.request_context import Wish
from Middleware.llmapis.llm_text import LlmText
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.node_trace import CallTrace
from Middleware.services.run_trace import Observers
from Middleware.workflows.handlers.impl.candidates_node_handler import _ENTRY, MOST, candidate_models
from Middleware.workflows.handlers.node_types import node_handler
from tests.patience import PATIENCE_S

NODE = {"type": "Candidates", "endpointName": "chat"}
SHOW = {"type": "StaticResponse", "content": "{agent1Output}|{agent1Candidates}"}


def node(**fields):
    return {**NODE, **fields}


def failure(text="no answer today"):
    return BackendError("chat", "overloaded", text)


@pytest.fixture
def house(house):
    """One after the other, so that a script can say who answers what; a second model, `wise`, answers a judge."""
    house.user["maxParallelNodes"] = 1
    house.endpoint("wise", apiTypeConfigFileName="Chat")
    return house


def asked(house):
    return [call.conversation[-1]["content"] for call in house.model.calls]


def shown(house, *nodes, **more):
    """Output, and the list of candidates."""
    text = house.ask(*nodes, SHOW, **more).text
    output, _, told = text.partition("|")
    return output, json.loads(told)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
class TestModes:
    def test_the_vectors_of_the_specification(self, house, stream):
        """agents.md 12."""
        house.model.replies = ["I say 7.", "It is 8.", "So: 8."]
        assert house.ask(node(choose="vote", voteOn="last_number"), stream=stream).text == "It is 8."

    def test_a_vote_without_a_failure(self, house, stream):
        """The failed one does not vote; a tie goes to the first."""
        house.model.replies = ["x\nred", "y\nblue", failure()]
        assert house.ask(node(choose="vote"), stream=stream).text == "x\nred"

    def test_a_vote_that_nobody_casts(self, house, stream):
        house.model.replies = ["one", "two", "three"]
        assert house.ask(node(choose="vote", voteOn="last_number"), stream=stream).text == "one"

    def test_a_judge(self, house, stream):
        """It sees all candidates and the question, and nothing else of the conversation."""
        house.model.replies = ["one", "two", "Of all 9 the best is 2."]
        answer = house.ask(node(candidates=2, judgeEndpointName="wise"), stream=stream, say="why?")
        assert answer.text == "two"
        [message] = house.model.calls[2].conversation
        assert message["role"] == "user"
        assert "Question:\nwhy?\n\nAnswers:\n\n[1]\none\n\n[2]\ntwo\n\n" in message["content"]
        assert house.model.settings[2].endpoint.name == "wise"

    def test_a_merge(self, house, stream):
        """One more call, with the node's system prompt."""
        house.model.replies = ["one", "two", "three", "all in one"]
        answer = house.ask(node(choose="merge", systemPrompt="Be kind."), stream=stream)
        assert answer.text == "all in one"
        system, user = house.model.calls[3].conversation
        assert system["content"] == "Be kind."
        assert "[3]\nthree" in user["content"]

    def test_all(self, house, stream):
        """Those that answered, for a later node."""
        house.model.replies = ["one", failure(), "three"]
        assert house.ask(node(choose="all"), stream=stream).text == "[1]\none\n\n[2]\nthree"

    @pytest.mark.parametrize("choose", ["judge", "vote", "merge"])
    @pytest.mark.parametrize(
        "replies", [["same", "same", "same"], ["", "same", failure()], [" \n", "same", ""]], ids=str
    )
    def test_nothing_to_choose_from(self, house, stream, choose, replies):
        """One is left, or all say the same: nobody is asked again."""
        house.model.replies = replies
        assert house.ask(node(choose=choose), stream=stream).text == "same"
        assert len(house.model.calls) == 3 - (choose == "vote" and replies[0] == "same")

    @pytest.mark.parametrize("choose", ["judge", "vote", "merge", "all"])
    def test_no_answer_at_all(self, house, stream, choose):
        """The node fails by the first failure."""
        house.model.replies = ["", failure("first"), failure("second")]
        with pytest.raises(WorkflowError, match="first"):
            house.ask(node(choose=choose), stream=stream)

    @pytest.mark.parametrize("choose", ["judge", "vote", "merge", "all"])
    def test_only_empty_answers(self, house, stream, choose):
        """The answer is empty, as that of Standard would be."""
        house.model.replies = ["", " ", ""]
        assert house.ask(node(choose=choose), stream=stream).text.strip() == ""

    def test_a_failure_can_be_caught(self, house, stream):
        house.model.replies = [failure()]
        answer = house.ask(node(onNodeError="continue", errorText="sorry"), stream=stream)
        assert answer.text == "sorry"


class TestJudge:
    @pytest.mark.parametrize("reply", ["none of them", "", "4", failure()], ids=str)
    def test_a_judge_that_names_nobody(self, house, reply, caplog):
        """The first one, and a warning; also when the call fails."""
        house.model.replies = ["one", "two", "three", reply]
        assert house.ask(node()).text == "one"
        assert "the first" in caplog.text

    def test_numbers_are_those_of_the_candidates_that_are_left(self, house):
        """The judge does not see the failed one."""
        house.model.replies = [failure(), "two", "three", "2"]
        assert house.ask(node()).text == "three"

    def test_thoughts_of_the_judge_do_not_count(self, house):
        house.model.replies = ["one", "two", "three", "<think>1 or 2?</think>3"]
        assert house.ask(node()).text == "three"

    def test_its_reply_is_bound_where_that_is_possible(self, house):
        block = {"field": "response_format", "style": "openaiJsonSchema"}
        house.write("ApiTypes/Chat", {"type": "scriptedChat", "presetType": "any", "structuredOutput": block})
        house.model.replies = ["one", "two", '{"best": 2}']
        assert house.ask(node(candidates=2)).text == "two"
        assert [
            call.schema and call.schema["properties"]["best"]["maximum"] for call in house.model.calls
        ] == [
            None,
            None,
            2,
        ]

    def test_the_clients_format_is_the_candidates(self, house):
        """And not the judge's; but that of a merge."""
        wish = {"type": "json_object"}
        block = {"field": "response_format", "style": "openaiJsonSchema"}
        house.write("ApiTypes/Chat", {"type": "scriptedChat", "presetType": "any", "structuredOutput": block})
        house.model.replies = ["{}", '{"a": 1}', "2", "{}", '{"a": 1}', '{"b": 2}']
        fields = {"candidates": 2, "clientParameters": ["response_format"]}
        wishes = {"response_format": Wish(wish, "response_format")}
        house.ask(node(**fields), wishes=wishes)
        house.ask(node(choose="merge", **fields), wishes=wishes)
        schemas = [call.schema for call in house.model.calls]
        assert [schema == schemas[0] for schema in schemas] == [True, True, False, True, True, True]
        assert "best" in schemas[2]["properties"]

    def test_a_prompt_of_its_own(self, house):
        """Variables first, then the marks."""
        house.model.replies = ["one", "two", "1"]
        prompt = "{chat_user_prompt_last_one}? [Candidates] -- [Question] {{x}}"
        house.ask(node(candidates=2, judgePrompt=prompt), say="hi")
        assert asked(house)[2] == "hi? [1]\none\n\n[2]\ntwo -- hi {x}"

    def test_the_question_is_an_authored_prompt(self, house):
        house.model.replies = ["one", "two", "1"]
        house.ask(
            node(candidates=2, prompt="Think of {chat_user_prompt_last_one}.", judgePrompt="[Question]")
        )
        assert asked(house)[2] == "Think of hi."


class TestText:
    INJECTION = "{agent1Output} {{ 7 * 7 }} {% raw %} [Question] [Candidates] {chat_system_prompt} \\1"

    @pytest.mark.parametrize("jinja2", [False, True])
    @pytest.mark.parametrize("choose", ["judge", "merge"])
    def test_a_candidates_text_stays_text(self, house, choose, jinja2):
        """In the prompt of whoever looks at it."""
        house.model.replies = [self.INJECTION, "two", "1"]
        house.ask(node(candidates=2, choose=choose, jinja2=jinja2), say="why?")
        assert f"[1]\n{self.INJECTION}\n\n[2]\ntwo" in asked(house)[2]

    def test_a_question_stays_text(self, house):
        house.model.replies = ["one", "two", "1"]
        house.ask(node(candidates=2), say=self.INJECTION)
        assert f"Question:\n{self.INJECTION}\n" in asked(house)[2]

    def test_the_output_and_the_list_stay_text(self, house):
        house.model.replies = [self.INJECTION, "two", "1"]
        output, told = shown(house, node(candidates=2))
        assert (output, told[0]["text"]) == (self.INJECTION, self.INJECTION)

    @pytest.mark.parametrize("choose", ["judge", "vote", "merge", "all"])
    def test_each_is_cleaned_by_itself(self, house, choose):
        """Before anything looks at it, by the rules of its endpoint; thoughts are not part of it."""
        house.endpoint("chat", thinkTagNames=["think"], removeThinking=True)
        house.endpoint("other", responseStartTextToRemoveEndpointWide=["Sure!"],
                       removeCustomTextFromResponseStartEndpointWide=True)  # fmt: skip
        house.model.replies = ["<think>9</think>one", "Sure!two", "1"]
        entries = [{"times": 1}, {"endpointName": "other"}]
        _, told = shown(house, node(choose=choose, candidates=entries, judgePrompt="[Candidates]"))
        assert [one["text"] for one in told] == ["one", "two"]
        assert "9" not in asked(house)[-1]

    def test_a_merge_by_another_model_is_cleaned_by_its_rules(self, house):
        """Streamed and whole."""
        house.endpoint("chat", thinkTagNames=["think"], removeThinking=True)
        house.endpoint("wise", thinkTagNames=["muse"], removeThinking=True)
        for stream in (False, True):
            house.model.replies = ["one", "two", "<muse>x</muse><think>y</think>both"]
            house.model.calls.clear()
            fields = {"candidates": 2, "choose": "merge", "judgeEndpointName": "wise"}
            assert house.ask(node(**fields), stream=stream).text == "<think>y</think>both"

    def test_thoughts_of_the_chosen_one(self, house):
        """For later nodes; the client gets none."""
        house.model.replies = [LlmText("one", thinking="a"), LlmText("two", thinking="b"), "2"]
        answer = house.ask(
            node(candidates=2, is_responder=True, reasoningOutput="field"),
            {"type": "StaticResponse", "content": "x"},
        )
        assert (answer.text, answer.thinking) == ("two", "")
        house.model.calls.clear()
        assert (
            house.ask(node(candidates=2), {"type": "StaticResponse", "content": "{agent1Thinking}"}).text
            == "b"
        )

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    @pytest.mark.parametrize(
        ("mode", "told"),
        [("drop", ("both", "")), ("field", ("both", "cd")), ("inline", ("<m>cd</m>both", ""))],
    )
    def test_thoughts_of_a_merge_go_where_its_endpoint_says(self, house, stream, mode, told):
        """Beside the text and in it; those of the candidates go nowhere."""
        tags = {"startThinkTag": "<m>", "endThinkTag": "</m>"}
        house.endpoint(
            "wise", apiTypeConfigFileName="Chat", reasoningOutput=mode, removeThinking=True, **tags
        )
        house.model.replies = [LlmText("one", thinking="a"), "two", LlmText("<m>d</m>both", thinking="c")]
        fields = {"candidates": 2, "choose": "merge", "judgeEndpointName": "wise"}
        answer = house.ask(node(is_responder=True, **fields), SHOW, stream=stream)
        assert (answer.text, answer.thinking) == told

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_thoughts_of_a_merge_are_no_output(self, house, stream):
        """Nodes behind it name them."""
        house.endpoint("wise", apiTypeConfigFileName="Chat", reasoningOutput="inline")
        house.model.replies = ["one", "two", LlmText("both", thinking="c")]
        merge = node(candidates=2, choose="merge", judgeEndpointName="wise")
        behind = {"type": "StaticResponse", "content": "{agent1Output}|{agent1Thinking}"}
        assert house.ask(merge, behind, stream=stream).text == "both|c"

    def test_a_call_that_nobody_offered(self, house):
        """Its text counts."""
        call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        house.model.replies = [
            {"content": "one", "tool_calls": [call], "finish_reason": "tool_calls"},
            "",
            "",
        ]
        answer = house.ask(node())
        assert (answer.text, answer.finish_reason) == ("one", "stop")


class TestModels:
    def test_each_entry_stands_for_some(self, house):
        """Its own endpoint and preset, else the node's."""
        house.write("Presets/any/hot", {"temperature": 2})
        house.write("Presets/any/cold", {"temperature": 0})
        entries = [{"times": 2}, {"endpointName": "wise"}, {"preset": "hot"}]
        house.model.replies = ["a", "b", "c", "d", "1"]
        house.ask(node(candidates=entries, preset="cold"))
        names = [settings.endpoint.name for settings in house.model.settings]
        assert names == ["chat", "chat", "wise", "chat", "chat"]
        heat = [settings.samplers.get("temperature") for settings in house.model.settings]
        assert heat == [0, 0, 0, 2, 0]

    def test_an_entry_that_leads_nowhere_is_left_out(self, house, caplog):
        house.model.replies = ["a", "b", "2"]
        entries = [{"endpointName": "nowhere"}, {"times": 2}]
        assert house.ask(node(candidates=entries)).text == "b"
        assert "candidate 1 failed" in caplog.text

    def test_the_number_can_be_a_variable(self, house):
        house.workflow("Main", node(candidates="{many}", choose="all"), many="4")
        house.model.replies = ["a", "b", "c", "d"]
        assert house.ask().text.count("[") == 4

    @pytest.mark.parametrize(
        "value",
        [
            1,
            17,
            0,
            -3,
            True,
            [],
            [{"times": 17}],
            [{}],
            [{"times": 0}, {}],
            ["chat", "wise"],
            [{"times": "2"}],
        ],
        ids=str,
    )
    def test_other_numbers(self, value):
        with pytest.raises(ValueError, match="from 2 to 16"):
            candidate_models(value)

    @pytest.mark.parametrize("fields", [{"candidates": [{}]}, {"choose": "vote", "voteOn": "("}], ids=str)
    def test_a_node_that_cannot_work(self, house, fields):
        with pytest.raises((ConfigError, WorkflowError), match=r"must be|allowed"):
            house.ask(node(**fields))

    @pytest.mark.parametrize(
        ("fields", "wrong"),
        [
            ({"candidates": [{}]}, ["candidates"]),
            ({"voteOn": "("}, ["voteOn"]),
            ({"candidates": [{}], "voteOn": "("}, ["candidates", "voteOn"]),
            ({"candidates": "{agent1Output}", "voteOn": 7}, []),
            ({"candidates": 3, "voteOn": "last_line"}, []),
            ({}, []),
        ],
        ids=str,
    )
    def test_what_a_check_of_the_file_finds(self, fields, wrong):
        """A text may be a variable: what it gives is known in a run."""
        assert [name for name, _ in node_handler("Candidates").config_errors(fields)] == wrong

    def test_all_are_asked_the_same(self, house):
        """Though a variable changes from one look to the next."""
        house.model.replies = ["a", "b", "c", "1"]
        house.ask(node(jinja2=True, prompt="{{ range(90000) | random }}"))
        assert len(set(asked(house)[:3])) == 1

    def test_tools_are_not_offered(self, house):
        house.model.replies = ["a", "b", "c", "1"]
        house.ask(node(), tools=[{"type": "function", "function": {"name": "f"}}])
        assert [call.tools for call in house.model.calls] == [None] * 4


class TestList:
    def test_facts_of_each(self, house):
        """In order, with the chosen one marked."""
        house.model.replies = [
            LlmText("one", usage={"prompt_tokens": 5, "completion_tokens": 7}),
            failure(),
            "three",
            "2",
        ]
        output, told = shown(house, node())
        assert output == "three"
        seconds = [one.pop("seconds") for one in told]
        assert all(s >= 0 for s in seconds)
        assert told == [
            {"text": "one", "endpoint": "chat", "tokens": 7, "chosen": False, "failed": False},
            {"text": "", "endpoint": "chat", "tokens": 0, "chosen": False, "failed": True},
            {
                "text": "three",
                "endpoint": "chat",
                "tokens": told[2]["tokens"],
                "chosen": True,
                "failed": False,
            },
        ]
        assert told[2]["tokens"] > 0

    @pytest.mark.parametrize("choose", ["merge", "all"])
    def test_all_that_were_used_are_chosen(self, house, choose):
        house.model.replies = ["one", "", "three", "both"]
        _, told = shown(house, node(choose=choose))
        assert [one["chosen"] for one in told] == [True, False, True]

    def test_no_more_are_asked_when_a_vote_is_settled(self, house):
        """They are not in the list."""
        house.model.replies = ["8", "8"]
        _, told = shown(house, node(choose="vote"))
        assert (len(house.model.calls), len(told)) == (2, 2)


def usage(prompt, completion):
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
class TestUsage:
    REPLIES = (("one", 10, 1), ("two", 20, 2), ("2", 30, 3))

    def ask(self, house, stream, **fields):
        house.model.replies = [
            LlmText(t, usage=usage(p, c), finish_reason="stop") for t, p, c in self.REPLIES
        ]
        manager = house.manager()
        house.manager = lambda: manager
        answer = house.ask(node(candidates=2, **fields), stream=stream)
        return answer.usage, manager.request.usage.numbers()

    @pytest.mark.parametrize(
        ("choose", "own"), [("judge", usage(20, 2)), ("merge", usage(30, 3)), ("all", usage(30, 3))]
    )
    def test_of_the_answer_and_of_all(self, house, stream, choose, own):
        """That of the chosen one, of the merge, of all that are in the answer; and the sum of all calls."""
        told, whole = self.ask(house, stream, choose=choose)
        assert told == own
        calls = 2 if choose == "all" else 3
        assert whole == {
            "prompt_tokens": 30 if choose == "all" else 60,
            "completion_tokens": 3 if choose == "all" else 6,
            "calls": calls,
        }


class TestSideBySide:
    @pytest.fixture
    def wide(self, house):
        house.user["maxParallelNodes"] = 16
        return house

    def test_they_run_at_the_same_time(self, wide):
        """Each waits for the others."""
        meeting = threading.Barrier(4, timeout=PATIENCE_S)

        def reply(call):
            meeting.wait()
            return "x"

        wide.model.replies = [reply]
        assert wide.ask(node(candidates=4)).text == "x"

    def test_a_settled_vote_ends_the_others(self, wide):
        """Those under way are cancelled by themselves; the request goes on, and what they read counts."""
        begun = threading.Barrier(3, timeout=PATIENCE_S)

        def quick(call):
            begun.wait()
            return LlmText("8", usage=usage(10, 1))

        def slow(call):
            call.trace.call(CallTrace("model", "chat", "x", "m", sent=1.0))
            stopped = threading.Event()
            cancellation_service.register_abort_callback(call.request_id, stopped.set)
            begun.wait()
            assert stopped.wait(PATIENCE_S)
            return LlmText("")

        wide.model.replies = [quick, quick, slow]
        observers = Observers()
        observers.observe(SimpleNamespace(keeps_text=False, note_change=lambda *_: None))
        wide.request = {"trace": observers.begin("r1", "/")}
        manager = wide.manager()
        wide.manager = lambda: manager
        before = cancellation_service.get_all_cancelled_requests()
        text = wide.ask(node(choose="vote"), SHOW).text
        output, _, told = text.partition("|")
        assert output == "8"
        assert [one["chosen"] for one in json.loads(told)].count(True) == 1
        numbers = manager.request.usage.numbers()
        assert numbers["completion_tokens"] == 2
        assert numbers["prompt_tokens"] > 20 and numbers["calls"] == 3
        assert cancellation_service.get_all_cancelled_requests() == before

    @pytest.mark.parametrize("phase", ["candidates", "judge", "merge"])
    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_a_cancelled_request_ends_every_call(self, wide, phase, stream):
        """In each phase."""
        seen = []

        def hang(call):
            stopped = threading.Event()
            cancellation_service.register_abort_callback(call.request_id, stopped.set)
            seen.append(call)
            if len(seen) == (3 if phase == "candidates" else 1):
                cancellation_service.request_cancellation("r1")
            assert stopped.wait(PATIENCE_S)
            return LlmText("")

        first = ["one", "two", "three"] if phase != "candidates" else []
        wide.model.replies = [*first, hang]
        choose = "merge" if phase == "merge" else "judge"
        with pytest.raises(RequestCancelled):
            wide.ask(node(choose=choose), stream=stream)
        assert len(wide.model.calls) == len(first) + (3 if phase == "candidates" else 1)

    def test_a_cancelled_request_asks_nobody_more(self, house):
        """One after the other: the second is not asked."""

        def cancel(call):
            cancellation_service.request_cancellation("r1")
            return "one"

        house.model.replies = [cancel]
        with pytest.raises(RequestCancelled):
            house.ask(node())
        assert len(house.model.calls) == 1

    def test_threads_are_given_back(self, wide):
        """A later group of the request may take them."""
        manager = wide.manager()
        wide.manager = lambda: manager
        wide.model.replies = ["x", failure(), "x"]
        wide.ask(node(), SHOW)
        assert sum(manager.state.extra_threads.acquire(blocking=False) for _ in range(20)) == 15

    def test_in_a_parallel_group(self, wide):
        """Beside another node; its list has the right number."""
        wide.model.replies = ["x"]
        nodes = [node(parallelGroup="g"), node(parallelGroup="g", choose="all"), SHOW]
        output, _, told = wide.ask(*nodes).text.partition("|")
        assert output == "x"
        assert len(json.loads(told)) == 3


class TestTraced:
    def test_the_chosen_call_is_marked(self, house):
        """Each candidate is a call of the node, with its own text."""
        observers = Observers()
        observers.observe(SimpleNamespace(keeps_text=True, note_change=lambda *_: None))
        trace = observers.begin("r1", "/")
        house.request = {"trace": trace}
        manager = house.manager()
        house.manager = lambda: manager
        trace.name(manager.request, front="", stream=False, asked=b"")

        def reply(text):
            def answer(call):
                call.trace.call(CallTrace("model", "chat", "x", "m"))
                return text

            return answer

        house.model.replies = [reply("one"), reply("two"), reply("2")]
        house.ask(node(candidates=2), SHOW)
        found = trace.nodes[0]
        assert found.output == "two"
        assert [(call.cleaned, call.chosen) for call in found.calls] == [
            ("one", False),
            ("two", True),
            ("2", False),
        ]


class TestBackends:
    def test_one_that_takes_a_text(self, house):
        """Beside one that takes messages; each gets its own form of the same prompt."""
        house.model.replies = ["one", "two", "2"]
        entries = [{}, {"endpointName": "flat"}]
        answer = house.ask(node(candidates=entries, prompt="why?", judgeEndpointName="flat"))
        assert answer.text == "two"
        chat, flat, judge = house.model.calls
        assert (chat.conversation[-1]["content"], chat.prompt) == ("why?", None)
        assert flat.conversation is None and "why?" in flat.prompt
        assert "[2]\ntwo" in judge.prompt

    @pytest.mark.parametrize(("judge", "bound"), [("flat", False), ("chat", True)])
    def test_a_judge_is_bound_to_a_number_where_its_backend_can_be(self, house, judge, bound):
        """One that takes a text cannot, whatever its API type says."""
        block = {"field": "response_format", "style": "openaiJsonSchema"}
        for kind in ("Chat", "Flat"):
            house.write(
                f"ApiTypes/{kind}",
                {"type": f"scripted{kind}", "presetType": "any", "structuredOutput": block},
            )
        house.model.replies = ["one", "two", "2"]
        answer = house.ask(node(candidates=2, judgeEndpointName=judge))
        assert answer.text == "two"
        assert [call.schema is not None for call in house.model.calls] == [False, False, bound]

    def test_a_fault_of_ours_is_no_failure_of_a_candidate(self, house):
        """It is not hidden behind another answer."""
        house.model.replies = ["one", TypeError("ours"), "three"]
        with pytest.raises(WorkflowError, match="TypeError"):
            house.ask(node())

    def test_usage_of_all_without_numbers(self, house):
        """Prompts are estimated, too."""
        house.model.replies = ["one", "two"]
        usage_told = house.ask(node(candidates=2, choose="all"), say="word " * 50).usage
        assert usage_told["prompt_tokens"] > 100

    def test_the_limit_of_the_client(self, house):
        """Of the candidates and the merge, as the node takes it; the judge has the node's."""
        wishes = {"max_tokens": Wish(77, "max_tokens")}
        fields = {"candidates": 2, "clientParameters": ["max_tokens"], "maxResponseSizeInTokens": 200}
        for choose in ("judge", "merge"):
            house.model.replies = ["one", "two", "1"]
            house.model.calls.clear()
            house.ask(node(choose=choose, **fields), wishes=wishes)
        limits = [settings.max_tokens for settings in house.model.settings]
        assert limits == [77, 77, 200, 77, 77, 77]

    def test_a_speaker_stands_before_each(self, house):
        """A group chat's opening is part of every candidate, and never doubled."""
        house.model.replies = ["hello", "Bo: hi", "2"]
        say = [{"role": "user", "content": "Ana: hi"}, {"role": "assistant", "content": "Bo:"}]
        answer = house.ask(node(candidates=2, useGroupChatTimestampLogic=True), say=say)
        assert answer.text == "Bo: hi"


@pytest.mark.parametrize(
    ("entry", "fits"),
    [
        ({}, True),
        ({"endpointName": "e", "preset": "p", "times": 1}, True),
        ({"times": MOST}, True),
        ({"odd": 1}, True),
        ("e", False),
        ({"endpointName": 1}, False),
        ({"preset": 1}, False),
        *[({"times": times}, False) for times in (0, MOST + 1, 1.5, "2")],
    ],
    ids=str,
)
def test_an_entry_of_the_list(entry, fits):
    assert Draft202012Validator(_ENTRY).is_valid(entry) is fits
