"""What `knowledge search` says when an answer is less than it could be."""

import re

import pytest

from knowledge.interfaces.cli import ExitCode
from knowledge.model.documents import EmbedderSpec
from knowledge.model.inputs import BaseInput, NoteInput
from tests.fakes.embedder_server import FakeEmbedderServer
from tests.house import DIMENSIONS
from tests.unit.interfaces.test_lifecycle_commands import cli  # noqa: F401 - a fixture


@pytest.fixture
def server():
    with FakeEmbedderServer(dimensions=DIMENSIONS) as server:
        yield server


@pytest.fixture
def house(make_house, server):
    """With a base `b` that a server embeds."""
    house = make_house(EmbedderSpec(id="m", kind="openai", dimensions=DIMENSIONS, model="m", endpoint=server.endpoint))
    base = house.service.create_base(BaseInput(name="b", embedder="m"))
    house.add(base, NoteInput(content="the lighthouse stands on a rock"))
    house.work()
    return house


def test_an_embedder_that_is_away_is_said_and_the_words_are_searched(cli, house, server):  # noqa: F811
    """Hits on stdout, the notice on stderr; with --json it is in the answer, and stderr is silent. Both end with 0."""
    server.behave({"behaviour": "close"})
    people, machine = cli.run("search", "b", "lighthouse"), cli.run("search", "b", "lighthouse", "--json")

    assert [ExitCode.OK] * 2 == [people.returncode, machine.returncode]
    assert "the lighthouse stands on a rock" in people.stdout
    assert "1 hit, lexical search" in people.stderr
    assert "the embedder does not answer: searched by words only" in people.stderr
    answer = cli.json("search", "b", "lighthouse")
    assert ("lexical", ["embedder_unavailable"], 1) == (answer["mode"], answer["notices"], len(answer["hits"]))
    assert "" == machine.stderr


def test_a_wrong_key_is_an_error(cli, house, server):  # noqa: F811
    """It does not pass by itself, so nobody may get used to answers without it."""
    server.behave({"behaviour": "status", "status": 401})

    assert "embedder_refused" == cli.json("search", "b", "lighthouse", expect=ExitCode.FAILED)["code"]


def test_a_lost_index_is_said_until_it_is_made_again(cli, house):  # noqa: F811
    """First as an error, then with each answer, with the command that mends it; typed as it stands, it does."""
    (base,) = house.service.list_bases()
    house.rt.indexes.drop(base.id)

    assert "index_corrupt" == cli.json("search", "b", "lighthouse", expect=ExitCode.FAILED)["code"]
    said = cli.run("search", "b", "lighthouse").stderr
    assert f"knowledge item reindex {base.id} --interrupted" in said
    assert ExitCode.OK == cli.run("item", "reindex", base.id, "--interrupted").returncode
    house.work()
    answer = cli.json("search", "b", "lighthouse")
    assert ([], 1) == (answer["notices"], len(answer["hits"]))


def test_a_score_is_never_shown_as_nothing(cli, house):  # noqa: F811
    """In a base of words, whose scores are tiny while it holds little, each still says something."""
    house.add(house.service.create_base(BaseInput(name="words")), NoteInput(content="the lighthouse stands on a rock"))
    house.work()

    (hit,) = cli.json("search", "words", "lighthouse")["hits"]
    assert hit["score"] > 0
    (shown,) = re.findall(r"\(ranking (.*)\)", cli.run("search", "words", "lighthouse").stdout)
    assert hit["score"] == pytest.approx(float(shown), rel=0.01)
