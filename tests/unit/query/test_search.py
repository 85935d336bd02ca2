"""Search shows what is visible, says what it cannot contain yet, and refuses with typed errors."""

from dataclasses import replace

import pytest

from knowledge.catalog.rows import ITEM
from knowledge.errors import BaseNotFound, EmbedderBadAnswer, EmbedderRefused, EmptyQuery, InvalidInput, ModelNotFound
from knowledge.model.documents import EmbedderSpec
from knowledge.model.results import ScoreKind
from knowledge.model.status import ItemStatus
from knowledge.pipeline.indexing.registry import Embedders
from tests.fakes.embedder_server import FakeEmbedderServer
from tests.house import DIMENSIONS


@pytest.fixture
def base(house):
    return house.base()


def test_a_hit_says_where_it_is_from(house, base, tmp_path):
    """Rank, score kind, chunk, item, concept, title, range, source."""
    (tmp_path / "tower.md").write_text("# Tower\n\nThe lighthouse keeper climbs the stairs.")
    (item,) = house.add(base, tmp_path / "tower.md")
    house.work()
    answer = house.service.search(base.id, "keeper")
    (hit,) = answer.hits
    text = house.rt.index(base).content(item.id)

    assert ("hybrid", 0, 0) == (answer.mode, answer.pending, answer.stale)
    assert (1, ScoreKind.RANKING, item.id, "tower.md", "tower.md") == (
        hit.rank,
        hit.score_kind,
        hit.item_id,
        hit.concept_id,
        hit.title,
    )
    assert text[hit.char_start : hit.char_end] == hit.text
    assert str(tmp_path / "tower.md") == hit.source


@pytest.mark.parametrize("query", ["", " ", "\n\t", "...", "🗼", "-- **", "\0"])
def test_a_query_without_a_searchable_sign_is_refused(house, base, query):
    """Nothing to look for is a mistake, not an empty answer."""
    with pytest.raises(EmptyQuery):
        house.service.search(base.id, query)


@pytest.mark.parametrize(
    "query",
    [
        "multi-agent",
        "POL-358",
        "20.04",
        "don't",
        '"open',
        "AND",
        "NEAR(",
        "col:x",
        "a*",
        "^a",
        "half \ud800 a pair",
        "a" * 9_999,
    ],
)
def test_everyday_text_is_never_a_syntax_error(house, base, query):
    """Signs that mean something to the index are text to a person."""
    house.notes(base, query.encode(errors="replace").decode())
    house.work()
    house.service.search(base.id, query)


@pytest.mark.parametrize("limit", [0, -1, 201, 2**70])
def test_a_limit_that_makes_no_sense_is_refused(house, base, limit):
    """Before anything is asked."""
    with pytest.raises(InvalidInput):
        house.service.search(base.id, "words", limit=limit)


def test_a_query_that_is_a_book_is_refused(house, base):
    """By its length, not by running out of memory."""
    with pytest.raises(InvalidInput):
        house.service.search(base.id, "word " * 3000)


def test_an_unknown_base_is_refused(house):
    """By its id."""
    with pytest.raises(BaseNotFound):
        house.service.search("nobody", "words")


def test_visible_hits_are_found_below_many_that_are_being_deleted(house, base):
    """300 hidden items on top of the ranking do not hide the one that remains."""
    notes = house.notes(base, *("lighthouse lighthouse lighthouse" for _ in range(300)))
    (kept,) = house.notes(base, "one lighthouse among many other words that make this passage longer and rank it lower")
    house.work()
    house.service.delete_items(base.id, [note.id for note in notes])

    assert [kept.id] == [hit.item_id for hit in house.service.search(base.id, "lighthouse", limit=3).hits]


def test_an_answer_says_what_is_pending_and_what_is_stale(house, base):
    """Items without material yet, and items found with their last good one."""
    done, again = house.notes(base, "lighthouse one", "lighthouse two")
    house.work()
    house.notes(base, "lighthouse three")
    with house.db.write() as tx:
        tx.execute(ITEM.update().where(ITEM.c.id == again.id).values(status=ItemStatus.PROCESSING))
    answer = house.service.search(base.id, "lighthouse")

    assert (1, 1) == (answer.pending, answer.stale)
    assert {done.id, again.id} == {hit.item_id for hit in answer.hits}


def test_failed_items_stay_findable_with_their_last_good_material(house, base):
    """What the index holds is always a last good state."""
    (item,) = house.notes(base, "lighthouse")
    house.work()
    with house.db.write() as tx:
        tx.execute(ITEM.update().values(status=ItemStatus.FAILED, error="x"))

    assert [(item.id, ItemStatus.FAILED)] == [
        (hit.item_id, hit.item_status) for hit in house.service.search(base.id, "lighthouse").hits
    ]


def test_a_base_without_an_embedder_searches_by_words(house):
    """And says so."""
    base = house.base(None)
    (item,) = house.notes(base, "台北市中山區民生東路營造公司")
    house.work()
    answer = house.service.search(base.id, "營造")

    assert ("lexical", [item.id]) == (answer.mode, [hit.item_id for hit in answer.hits])


def test_a_model_that_does_not_know_the_script_is_not_asked(make_house):
    """An English model's idea of a Chinese question is noise, and would cost a request."""
    with FakeEmbedderServer(dimensions=DIMENSIONS) as server:
        spec = EmbedderSpec(
            id="en", kind="openai", dimensions=DIMENSIONS, model="m", endpoint=server.endpoint, languages=("en",)
        )
        house = make_house(spec)
        base = house.base("en")
        house.notes(base, "lighthouse 灯塔")
        house.work()
        before = server.requests()
        found = house.service.search(base.id, "灯塔").hits
        asked_chinese = server.requests() - before
        house.service.search(base.id, "lighthouse")

        assert (1, 0, 1) == (len(found), asked_chinese, server.requests() - before)


@pytest.fixture
def remote(make_house):
    """A house whose base is embedded by a server, with one note; and that server."""
    with FakeEmbedderServer(dimensions=DIMENSIONS) as server:
        spec = EmbedderSpec(
            id="m", kind="openai", dimensions=DIMENSIONS, model="m", endpoint=server.endpoint, timeout_seconds=3.0
        )
        house = make_house(spec)
        base = house.base("m")
        house.notes(base, "the lighthouse stands on a rock", "quite another matter")
        house.work()
        yield house, base, server


AWAY = {
    "5xx": ({"behaviour": "status", "status": 502}, "embedder_unavailable"),
    "cut connection": ({"behaviour": "close"}, "embedder_unavailable"),
    "hangs": ({"behaviour": "delay", "seconds": 10}, "embedder_unavailable"),
    "asks to wait": ({"behaviour": "status", "status": 429, "headers": {"Retry-After": "7"}}, "embedder_slow_down"),
    "busy for now": ({"behaviour": "status", "status": 503, "headers": {"Retry-After": "7"}}, "embedder_slow_down"),
}


@pytest.mark.parametrize("trouble", AWAY)
def test_while_the_embedder_is_away_words_are_searched(remote, trouble):
    """The answer says so; when the embedder is back it is whole again."""
    house, base, server = remote
    rule, notice = AWAY[trouble]
    server.behave(rule)
    answer = house.service.search(base.id, "lighthouse")
    server.behave()
    whole = house.service.search(base.id, "lighthouse")

    assert ("lexical", [notice], ["the lighthouse stands on a rock"]) == (
        answer.mode,
        answer.notices,
        [hit.text for hit in answer.hits],
    )
    assert ("hybrid", [], 2) == (whole.mode, whole.notices, len(whole.hits))


def test_an_embedder_that_is_not_there_at_all(remote):
    """Nobody listens at its address."""
    house, base, _ = remote
    nowhere = replace(house.rt.embedders.spec("m"), endpoint="http://127.0.0.1:1")
    object.__setattr__(house.rt, "embedders", Embedders([nowhere]))
    answer = house.service.search(base.id, "lighthouse")

    assert ("lexical", ["embedder_unavailable"], 1) == (answer.mode, answer.notices, len(answer.hits))


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ({"behaviour": "status", "status": 401}, EmbedderRefused),
        ({"behaviour": "status", "status": 403}, EmbedderRefused),
        ({"behaviour": "status", "status": 404}, EmbedderRefused),
        ({"behaviour": "short"}, EmbedderBadAnswer),
    ],
)
def test_what_does_not_pass_by_itself_is_an_error(remote, rule, kind):
    """A wrong key, address or model would be searched around for ever without anybody noticing."""
    house, base, server = remote
    server.behave(rule)

    with pytest.raises(kind):
        house.service.search(base.id, "lighthouse")


@pytest.mark.parametrize("change", ["refuses", "is no longer declared"])
def test_an_embedder_that_cannot_be_asked_is_a_typed_error(make_house, change):
    """Half a search is not passed off as a whole one."""
    with FakeEmbedderServer(dimensions=DIMENSIONS) as server:
        spec = EmbedderSpec(id="m", kind="openai", dimensions=DIMENSIONS, model="m", endpoint=server.endpoint)
        house = make_house(spec)
        base = house.base("m")
        house.notes(base, "lighthouse")
        house.work()
        if change == "refuses":
            server.behave({"behaviour": "status", "status": 401})
            with pytest.raises(EmbedderRefused):
                house.service.search(base.id, "lighthouse")
        else:
            with pytest.raises(ModelNotFound):
                make_house().service.search(base.id, "lighthouse")
