"""A counter on disk that runs a digest when it reaches ten: the worked workflow of nodes.md 5, from end to end."""

from __future__ import annotations

import pytest

TAGGED = "[DiscussionId]d1[/DiscussionId]hello"
"""What the user says, with the discussion id."""


@pytest.fixture
def turn(house, tmp_path):
    """One turn of the conversation: the outputs of all nodes but the last, and the answer."""
    notes = tmp_path / "n"
    house.user["userWideWorkflowVariables"] = {"notesDir": str(notes)}
    outputs = " / ".join(f"{{agent{n}Output}}" for n in range(1, 6))
    house.workflow(
        "Counter",
        {"type": "GetCustomFile", "filepath": "{dir}/{Discussion_Id}.txt", "delimiter": ""},
        {"type": "ArithmeticProcessor", "expression": "{agent1Output} + 1"},
        {"type": "Conditional", "condition": "{agent2Output} >= 10"},
        {
            "type": "ConditionalCustomWorkflow",
            "conditionalKey": "{agent3Output}",
            "conditionalWorkflows": {"true": "RunDigest"},
            "UseDefaultContentInsteadOfWorkflow": "{agent2Output}",
        },
        {"type": "SaveCustomFile", "filepath": "{dir}/{Discussion_Id}.txt", "content": "{agent4Output}"},
        {"type": "StaticResponse", "content": outputs},
        dir="{notesDir}/counters",
    )
    house.workflow(
        "RunDigest",
        {"type": "SaveCustomFile", "filepath": "{notesDir}/digest.txt", "content": "x", "mode": "append"},
        {"type": "StaticResponse", "content": "0"},
    )

    class Turn:
        saved = f"File successfully saved to {notes}/counters/d1.txt"
        digest = notes / "digest.txt"

        def __call__(self, stream):
            return house.ask(name="Counter", say=TAGGED, stream=stream).text

    return Turn()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_counter_begins_runs_the_digest_and_begins_again(turn, stream):
    """Turns 1, 2, 12 and 13 of the specification."""
    answers = [turn(stream) for _ in range(11)]
    assert answers[0] == f"Custom instruction file did not exist / -1 / FALSE / -1 / {turn.saved}"
    assert answers[1] == f"-1 / 0 / FALSE / 0 / {turn.saved}"
    assert not turn.digest.exists()
    assert turn(stream) == f"9 / 10 / TRUE / 0 / {turn.saved}"
    assert turn.digest.read_text() == "x"
    assert turn(stream) == f"0 / 1 / FALSE / 1 / {turn.saved}"
