"""The shared corpora: what a stream means, however its bytes are cut, and what exactly is sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from Middleware.common.errors import BackendError
from Middleware.llmapis.sampler_translation import deep_merge, translate

CORPORA = Path(__file__).resolve().parents[2] / "conformance"


def lines(name):
    return [json.loads(line) for line in (CORPORA / name).read_text().splitlines() if line]


STREAMS = [
    pytest.param(case, id=f"{record['id']}-{number}")
    for record in lines("backend_streams.jsonl")
    for number, case in enumerate(record.get("cases", [record]))
]
PAYLOADS = {record["id"]: record for record in lines("backend_payloads.jsonl")}


@pytest.mark.parametrize("case", STREAMS)
class TestStreams:
    @pytest.fixture
    def decoded(self, case, make_handler, read_stream):
        """The dicts for these reads; the error's kind when it raises."""

        def decode(reads):
            handler = make_handler(case["type"], endpoint=case.get("endpoint"))
            try:
                return read_stream(handler, reads)
            except BackendError as error:
                return error.kind

        return decode

    @pytest.fixture
    def expected(self, case, joined):
        def check(result):
            if "raises" in case:
                assert result == case["raises"]
            elif "dicts" in case:
                assert result == case["dicts"]
            else:
                facts = joined(result)
                assert (facts["text"], facts["thinking"]) == (
                    case["joined"]["token"],
                    case["joined"]["thinking"],
                )
                assert facts["finish_reason"] == case["finish_reason"]

        return check

    def test_as_recorded(self, case, decoded, expected):
        """One dict for each thing said."""
        expected(decoded([read.encode("latin-1") for read in case["reads"]]))

    def test_cut_at_every_position(self, case, decoded, joined):
        """Two reads, cut anywhere, give what one read gives."""
        data = "".join(case["reads"]).encode("latin-1")
        uncut = decoded([data])
        for cut in range(1, len(data)):
            result = decoded([data[:cut], data[cut:]])
            assert result == uncut if isinstance(uncut, str) else joined(result) == joined(uncut)

    def test_byte_by_byte(self, case, decoded, joined):
        """The hardest cut of all."""
        data = "".join(case["reads"]).encode("latin-1")
        result, uncut = decoded([data[i : i + 1] for i in range(len(data))]), decoded([data])
        assert result == uncut if isinstance(uncut, str) else joined(result) == joined(uncut)


@pytest.fixture
def sent(make_handler):
    """`(handler, body)` of a payload example."""

    def send(example, **prompts):
        endpoint = example["endpoint"]
        handler = make_handler(
            endpoint["apiTypeConfigFileName"],
            # The examples show what is sent without the defaults that our API types add.
            endpoint={"requestStreamUsage": False, **endpoint},
            samplers=samplers(example, make_handler),
            stream=example["stream"],
            max_tokens=example["max_tokens"],
        )
        body = handler._prepare_payload(
            example.get("conversation"),
            prompts.get("system_prompt", example.get("system_prompt")),
            prompts.get("prompt", example.get("prompt")),
            tools=example.get("tools"),
            tool_choice=example.get("tool_choice"),
        )
        return handler, body

    return send


def samplers(example, make_handler):
    block = example.get("preset", {})
    if example["id"] == "E3":
        block = PAYLOADS["E2"]["endpoint"]["presetSamplers"]
    block = example["endpoint"].get("presetSamplers", block)
    if block and example["id"] in ("E2", "E3"):
        name = example["endpoint"]["apiTypeConfigFileName"]
        block = translate(block, make_handler(name).settings.endpoint.api_type)
    return deep_merge(block, example.get("append", {}))


class TestPayloads:
    @pytest.mark.parametrize("example", ["E1", "E2", "E3", "E4", "E8"])
    def test_exact_body(self, example, sent, caplog):
        """Conversation, samplers and structure in the words of the backend."""
        example = PAYLOADS[example]
        handler, body = sent(example)
        assert body == example["send"]
        assert "url" not in example or handler._get_api_endpoint_url() == example["url"]
        assert example.get("headers", {}).items() <= handler.request_headers().items()
        assert all(word in caplog.text for word in example.get("warnings", ()))

    def test_tool_turns_for_ollama(self, make_handler):
        """E5: arguments as objects, results that name their tool."""
        example = PAYLOADS["E5"]
        body = make_handler(example["type"])._prepare_payload(example["conversation"], None, None)
        assert body["messages"] == example["messages"]

    def test_flat_prompt_for_ollama(self, sent):
        """E6: the outer strip takes the line end behind the generation prompt."""
        chatml = "<|im_start|>{}\n{}<|im_end|>\n".format
        system, prompt = chatml("system", "Be brief."), chatml("user", "Hi") + "<|im_start|>assistant\n"
        assert sent(PAYLOADS["E6"], system_prompt=system, prompt=prompt)[1] == PAYLOADS["E6"]["send"]

    def test_flat_prompt_for_completions(self, sent):
        """E7: the completion text comes after the strip."""
        turns = "### Instruction:\nA\n\n### Response:\nB\n\n### Instruction:\nC\n\n### Response:\n"
        assert sent(PAYLOADS["E7"], system_prompt="Sys\n\n", prompt=turns)[1] == PAYLOADS["E7"]["send"]

    @pytest.mark.parametrize("api_type", ["OllamaApiChat", "LlamaCppServer"])
    def test_schema(self, api_type, make_handler):
        """E9: where and how the API type says."""
        example = PAYLOADS["E9"]
        handler = make_handler(api_type)
        bare = handler._prepare_payload([], None, None)
        body = handler._prepare_payload([], None, None, schema=example["schema"])
        assert {key: value for key, value in body.items() if key not in bare} == example[api_type]

    def test_schema_in_a_nested_field(self, make_handler):
        """E9: vLLM's own field."""
        example = PAYLOADS["E9"]
        block = {"field": "structured_outputs.json", "style": "raw"}
        api_type = {"type": "openAIChatCompletion", "structuredOutput": block}
        handler = make_handler("x", api_type=api_type)
        body = handler._prepare_payload([], None, None, schema=example["schema"])
        wanted = example["field structured_outputs.json, style raw"]
        assert body["structured_outputs"] == wanted["structured_outputs"]
