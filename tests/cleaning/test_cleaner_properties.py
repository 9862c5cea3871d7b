"""Laws of the whole engine: for any configuration, any text and any way of cutting it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from Middleware.cleaning import ResponseCleaner
from Middleware.cleaning.stage import keys_of

MORSELS = [
    "<", ">", "/", " ", "\n", "\t", " ", ":", "a", "b", "A", "x", "<think>", "</think>", "<THINK>", "</Think>", "< think >",
    "</ thinking\n>", "<thinking>", "<a>", "</a>", "<a b='c'>", "<b/>", "<b />", "<b>", "</b>", "<note>", "</note>", "<note/>",
    "Bot:", "Bo", "AB", "Assistant:", "Assis", "[Sent less than a minute ago]", "[Sent", "Roland:", "Anna:", "İ", "ſ", "K",
    "aab", "ccd", " " * 70, "word " * 25, "***",
    "`", "``", "```", "```\n", "\n```", "\n```\r\n", "~~~", "\n~~~~\n", "   ", "`<think>`", "\r",
]  # fmt: skip
TEXTS = st.lists(
    st.sampled_from(MORSELS) | st.characters(codec="utf-8", exclude_characters="\x1e"), max_size=14
).map("".join)


def optional(**fields):
    return st.fixed_dictionaries({}, optional=fields)


TAGS = [
    ("<think>", "</think>"),
    ("***", "***"),
    ("aab", "ccd"),
    ("<", ">"),
    ("", "</think>"),
    ("<|think|>", "ſk"),
]
THINKING = st.builds(
    lambda tags, more: {"removeThinking": True, "startThinkTag": tags[0], "endThinkTag": tags[1], **more},
    st.sampled_from(TAGS),
    optional(
        openingTagGracePeriod=st.sampled_from([0, 1, 5, 100, 10**30]),
        expectOnlyClosingThinkTag=st.booleans(),
        whenEndThinkTagMissing=st.sampled_from(["keep", "discard"]),
        thinkTagNames=st.sampled_from([["think", "thinking"], ["a"], ["a", "b", "note"]]),
        reasoningOutput=st.sampled_from(["drop", "field", "inline"]),
    ),
)
XML = st.sampled_from([
    {}, {"stripInlineXmlTags": True}, {"stripInlineXmlTags": {"tags": ["note", "a"], "collapseWhitespace": False}},
    {"stripInlineXmlTags": {"tags": "*", "collapseWhitespace": False}}, {"stripInlineXmlTags": {"tags": ["b"]}},
])  # fmt: skip
ENDS = st.sampled_from([
    {}, {"trimBeginningAndEndLineBreaks": True},
    {"removeCustomTextFromResponseStartEndpointWide": True, "responseStartTextToRemoveEndpointWide": [" Bot: ", "a"]},
])  # fmt: skip
ENDPOINTS = st.builds(
    lambda *parts: {k: v for part in parts for k, v in part.items()}, st.just({}) | THINKING, XML, ENDS
)
NODES = st.sampled_from([
    {}, {"removeCustomTextFromResponseStart": True, "responseStartTextToRemove": ["ABx", "A", "Bot:", "Roland:"]},
    {"addDiscussionIdTimestampsForLLM": True},
])  # fmt: skip
USERS = st.sampled_from([
    {}, {"chatCompleteAddUserAssistant": True, "chatCompletionAddMissingAssistantGenerator": True},
])  # fmt: skip
PROMPTS = st.sampled_from([None, "Roland:", " B: "])
CONFIGS = st.tuples(ENDPOINTS, NODES, USERS, PROMPTS)
"""What the rules that the oracle knows are made for."""


def values(shape):
    """What may stand under a key, made of what the rule says of it."""
    if "enum" in shape:
        return st.sampled_from(shape["enum"])
    kinds = shape["type"] if isinstance(shape["type"], list) else [shape["type"]]
    inner = {name: values(field) for name, field in shape.get("properties", {}).items()}
    made = {
        "boolean": st.booleans(),
        "string": st.sampled_from([*MORSELS, "*", "think"]),
        "array": st.lists(st.sampled_from([*MORSELS, "think", "a"]), max_size=3),
        "integer": st.integers(0, 9),
        "object": optional(**inner),
    }
    return st.one_of([made[kind] for kind in kinds])


def stated(place):
    """A file with any of the keys that the rules state; switches are mostly on."""
    fields = {
        name: st.sampled_from([True, True, False]) if key.is_switch else values(key.shape)
        for name, key in keys_of(place).items()
    }
    return optional(**fields)


ANY = CONFIGS | st.tuples(stated("endpoint"), stated("node"), stated("user"), PROMPTS)
"""What any rule that there is may be told."""


def cleaner_of(config):
    endpoint, node, user, prompt = config
    return ResponseCleaner(endpoint, node, user_config=user, generation_prompt=prompt)


def run(cleaner, chunks):
    released = [cleaner.feed(chunk) for chunk in chunks]
    return "".join(released) + cleaner.finish()


def cut(text, places):
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


MANY = settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])


@MANY
@given(CONFIGS, TEXTS)
def test_whole_text_means_what_the_spec_says(oracle, config, text):
    """The engine and the plain whole-text reading of the spec agree, thoughts included."""
    cleaner = cleaner_of(config)

    assert (run(cleaner, [text]), cleaner.completed_thoughts) == oracle.clean(text, *config)


@MANY
@given(ANY, TEXTS, st.lists(st.integers(0, 400), max_size=12))
def test_cutting_changes_nothing(config, text, places):
    """However an answer is cut, text, thoughts and warnings are the same."""
    whole, pieces, letters = cleaner_of(config), cleaner_of(config), cleaner_of(config)

    expected = run(whole, [text])

    assert run(pieces, cut(text, places)) == run(letters, text) == expected
    assert pieces.completed_thoughts == letters.completed_thoughts == whole.completed_thoughts
    assert pieces.warnings == letters.warnings == whole.warnings


@MANY
@given(ANY, TEXTS, st.lists(st.integers(0, 400), max_size=12))
def test_what_is_released_depends_on_what_has_come_not_on_the_cut(config, text, places):
    """After each chunk exactly that is out which would be out had each character come alone."""
    pieces, letters = cleaner_of(config), cleaner_of(config)

    for chunk in cut(text, places):
        assert pieces.feed(chunk) == "".join(letters.feed(letter) for letter in chunk)
        assert pieces.take_thoughts() == letters.take_thoughts()


@MANY
@given(ANY, TEXTS, st.lists(st.integers(0, 400), max_size=12))
def test_order_of_thought_and_text_does_not_depend_on_the_cut(config, text, places):
    """`feed_in_order` gives thoughts and text in one order, however the answer is cut."""

    def events(chunks):
        cleaner = cleaner_of(config)
        letters = [
            (kind, letter)
            for chunk in chunks
            for pair in cleaner.feed_in_order(chunk)
            for kind, part in zip(("thought", "text"), pair, strict=True)
            for letter in part
        ]
        kinds = [kind for kind, _ in letters]
        begun = kinds.index("text") if "text" in kinds else len(kinds)
        return letters[:begun], [letter for kind, letter in letters if kind == "text"]

    assert events(cut(text, places)) == events(text)


@MANY
@given(CONFIGS, TEXTS)
def test_thoughts_taken_on_the_way_are_the_completed_ones(config, text):
    """What `take_thoughts` gave, with the unclosed block at the end, is what the blocks held."""
    cleaner = cleaner_of(config)
    taken = []
    for letter in text:
        cleaner.feed(letter)
        taken.append(cleaner.take_thoughts())
    cleaner.finish()
    taken.append(cleaner.take_thoughts())

    routed = config[0].get("reasoningOutput", "drop") != "drop"
    assert "".join(taken) == (
        "".join(cleaner.completed_thoughts) + cleaner.unclosed_thought if routed else ""
    )


@MANY
@given(CONFIGS, st.lists(TEXTS, max_size=4))
def test_a_decided_chain_passes_everything_through(config, texts):
    """Once the cleaner says that it passes through, texts come out untouched and nothing is left for the end."""
    cleaner = cleaner_of(config)
    for text in texts:
        decided = cleaner.passes_through
        assert cleaner.feed(text) == text or not decided
    decided = cleaner.passes_through
    assert cleaner.finish() == "" or not decided
