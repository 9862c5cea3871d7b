"""`--routes`: says how near a text is to each category of a routing file that routes by meaning. Prints,
never serves. Source: spec agents.md 8.
"""

from __future__ import annotations

import sys
from argparse import Namespace

from Middleware.api.command_registry import COMMANDS, Command, OwnArguments, check_config_folder
from Middleware.common.errors import BackendError, ConfigError
from Middleware.common.instance_global_variables import launch_facts
from Middleware.config.loader import ConfigTree
from Middleware.config.users import load_user, pointer_user
from Middleware.config.workflows import BY_MEANING, ByMeaning, load_routing
from Middleware.utilities.text_utils import count_of
from Middleware.workflows.managers.meaning_routing import MeaningModel
from Middleware.workflows.managers.meaning_scores import (
    FEWEST_BYTES,
    TOO_NEAR,
    Examples,
    NearPair,
    Scores,
    text_to_compare,
)

_ID = "routes"
_SHOWN = 70
"""So many characters of an example are printed."""


@COMMANDS.register("routes")
class Routes(Command):
    """Tries a routing file on a text."""

    def add_arguments(self, parser: OwnArguments) -> None:
        parser.add_argument(
            "--routes",
            nargs=2,
            metavar=("FILE_NAME", "TEXT"),
            help="Print how near a message is to each category of Routing/FILE_NAME.json, which example was "
            "nearest, and which examples spoil each other. For files with _byMeaning.",
        )

    def run(self, arguments: Namespace) -> int:
        """Exit status 0, 1 when the file or the embeddings endpoint is no good, 2 for a usage error."""
        facts = launch_facts()
        check_config_folder(facts)
        if len(facts.users) > 1:
            print("--routes works for one user: give --User once", file=sys.stderr)
            return 2
        name, text = arguments.routes
        try:
            return _try_out(name.removesuffix(".json"), text)
        except ValueError as error:  # of an answer that cannot be used
            print(f"error: the embeddings endpoint: {error}", file=sys.stderr)
        except (ConfigError, BackendError) as error:
            print(f"error: {error}", file=sys.stderr)
        return 1


def _try_out(name: str, text: str) -> int:
    """Raises ConfigError, BackendError, ValueError."""
    facts = launch_facts()
    snapshot = ConfigTree(facts.config_directory).snapshot()
    user = load_user(snapshot, facts.users[0] if facts.users else pointer_user(snapshot))
    routing = load_routing(snapshot, name)
    wanted = routing.by_meaning
    if wanted is None:
        message = f"has no {BY_MEANING!r}, so the categorisation workflow alone decides"
        raise ConfigError(message, file=routing.file)
    model = MeaningModel.of(routing, wanted, user, snapshot)
    if len(model.keys) < 2:
        raise ConfigError("needs two categories that have a description or examples", file=routing.file)
    examples = model.examples(_ID)
    asked = text_to_compare([{"role": "user", "content": text}], wanted)
    vector = None if asked is None else model.vector_of(asked, _ID)
    if examples is None:  # nobody cancels a command
        return 1
    if vector is not None and len(vector) != examples.dimension:
        model.forget()
        raise ValueError("it gives other vectors than before; the kept ones are deleted, so try again")
    _print_examples(examples)
    if not examples.tell_apart:
        print("These categories can't be told apart by meaning: the categorisation workflow decides.")
    elif vector is None:
        print(f"The text has less than {FEWEST_BYTES} bytes, so it isn't compared by itself.")
    else:
        _print_scores(examples.scores(vector), wanted)
    return 0


def _print_examples(examples: Examples) -> None:
    texts = sum(map(len, examples.texts))
    print(
        f"{count_of(texts, 'example')} in {len(examples.categories)} categories; mean cosine of examples of "
        f"different categories (b): {examples.baseline:.2f}"
    )
    near = examples.near_pairs() if examples.tell_apart else []
    if near:
        print(f"Examples of different categories with a score over {TOO_NEAR:g}, which spoil each other:")
    for pair in near:
        print(f"  {pair.score:.2f}  {_named(pair)}")


def _named(pair: NearPair) -> str:
    (category, text), (other, other_text) = pair.one, pair.other
    return f"{category} {_shown(text)} and {other} {_shown(other_text)}"


def _print_scores(scores: Scores, wanted: ByMeaning) -> None:
    width = max(len(score.category) for score in scores.ranked)
    for score in scores.ranked:
        print(f"  {score.score:5.2f}  {score.category.ljust(width)}  {_shown(score.example)}")
    limits = f"threshold {wanted.threshold:g}, margin {wanted.margin:g}"
    taken = scores.taken(wanted)
    if taken is None:
        print(f"{scores}: not clear ({limits}), so the categorisation workflow decides")
    else:
        print(f"{scores}: {taken} is taken ({limits})")


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return f'"{line}"' if len(line) <= _SHOWN else f'"{line[: _SHOWN - 3]}..."'
