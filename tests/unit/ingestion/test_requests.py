"""Adds that named themselves: one key, one request, one receipt; another request under that key is refused."""

import pytest
from sqlalchemy import update

from knowledge.catalog.rows import REQUEST
from knowledge.errors import KeyReused
from knowledge.model.inputs import DirectoryInput, FileInput, NoteInput, SitemapInput, Strategy, UrlInput
from tests.near import Near

ONE = NoteInput(content="one")


@pytest.fixture
def base(house):
    return house.base()


@pytest.fixture
def ask(house, base):
    def ask(*inputs, strategy=Strategy.RENAME, key="k"):
        return [item.id for item in house.service.add_items(base.id, inputs, strategy=strategy, idempotency_key=key).items]

    return ask


OTHERS = {
    "another text": [NoteInput(content="two")],
    "a title": [NoteInput(content="one", title="t")],
    "one more": [ONE, ONE],
    "another type": [UrlInput(url="https://a.example/one")],
    "a sitemap": [SitemapInput(url="https://a.example/one")],
    "a missing file": [FileInput(path="one")],
    "a folder": [DirectoryInput(path="one")],
}


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("inputs", OTHERS.values(), ids=OTHERS)
def test_another_request_under_a_used_key_is_refused(house, base, ask, inputs, strategy):
    """409 with the key and the first receipt's ids; nothing is added, and the first request is answered as before."""
    first = ask(ONE)
    with pytest.raises(KeyReused) as refusal:
        ask(*inputs, strategy=strategy)

    assert (409, "key_reused") == (refusal.value.http_status, refusal.value.code)
    assert {"key": "k", "item_ids": first} == refusal.value.details
    assert first == ask(ONE) == [item.id for item in house.items(base)]


def test_patterns_and_their_order_are_part_of_a_request(house, base, ask, tmp_path):
    """A directory with other patterns is another request."""
    first = ask(DirectoryInput(path=tmp_path, include=("*.md",)))

    assert first == ask(DirectoryInput(path=tmp_path, include=("*.md",)))
    with pytest.raises(KeyReused):
        ask(DirectoryInput(path=tmp_path, exclude=("*.md",)))


def test_the_same_request_in_other_clothes_is_the_same(house, base, ask, tmp_path, monkeypatch):
    """A relative path, and what a conflict would do: neither changes what was asked for; nor does a file that is gone."""
    (tmp_path / "a.md").write_text("text")
    first = ask(FileInput(path=tmp_path / "a.md"))
    (tmp_path / "a.md").unlink()
    monkeypatch.chdir(tmp_path)

    for strategy in Strategy:
        assert first == ask(FileInput(path="a.md"), strategy=strategy)


def test_what_is_gone_is_named(house, base):
    """Deleted, or replaced: accepted then, it is no item now; the receipt says which, and never that nothing was accepted."""
    first = house.service.add_items(base.id, [ONE, NoteInput(content="two")], idempotency_key="k")
    one, two = (item.id for item in first.items)
    house.work()
    house.service.delete_items(base.id, [one])

    for _ in range(2):  # while it is being deleted, and when it is gone
        again = house.service.add_items(base.id, [ONE, NoteInput(content="two")], idempotency_key="k")
        assert ([two], [one]) == ([item.id for item in again.items], list(again.gone))
        house.work()
    assert () == tuple(first.gone)


def test_two_that_replace_each_other(house, base, monkeypatch):
    """The one that was replaced before it had its answer learns what was accepted, and that it is gone."""
    publish = house.rt.dispatch.publish_due

    def replaced(base_id):
        monkeypatch.setattr(house.rt.dispatch, "publish_due", publish)
        house.service.add_items(base.id, [ONE], strategy=Strategy.REPLACE)
        return publish(base_id)

    monkeypatch.setattr(house.rt.dispatch, "publish_due", replaced)
    receipt = house.service.add_items(base.id, [ONE], strategy=Strategy.REPLACE)

    (left,) = house.items(base)
    assert ([], 1) == (receipt.items, len(receipt.gone))
    assert left.id not in receipt.gone


def test_waiting_for_what_is_gone_says_so(house, base):
    """Not that all is done."""
    client = Near(house, [])
    first = client.add_items(base.id, [ONE], idempotency_key="k")
    house.service.delete_items(base.id, [item.id for item in first.items])
    house.work()

    assert 1 == client.wait(client.add_items(base.id, [ONE], idempotency_key="k"), timeout_seconds=10).gone


def test_keys_belong_to_their_base(house, base, ask):
    """Another base knows nothing of them."""
    ask(ONE)
    other = house.base()

    assert house.service.add_items(other.id, [NoteInput(content="two")], idempotency_key="k").items


def test_a_death_between_commit_and_answer(house, base, ask, monkeypatch):
    """Whoever died had promised already: the same request gets those items, another one is refused."""

    def dies(_base_id):
        raise SystemExit

    with monkeypatch.context() as death:
        death.setattr(house.rt.dispatch, "publish_due", dies)
        with pytest.raises(SystemExit):
            ask(ONE)
    (made,) = house.items(base)

    assert [made.id] == ask(ONE)
    with pytest.raises(KeyReused):
        ask(NoteInput(content="two"))


def test_a_death_before_the_commit_leaves_the_key_free(house, base, ask, monkeypatch):
    """Nothing was promised, so the key stands for nothing yet."""

    def dies(*_, **__):
        raise SystemExit

    with monkeypatch.context() as death:
        death.setattr("knowledge.catalog.requests.keep", dies)
        with pytest.raises(SystemExit):
            ask(ONE)

    assert [] == house.items(base)
    assert 1 == len(ask(NoteInput(content="two")))


def test_a_key_of_an_older_version_answers_whatever_is_asked(house, base, ask):
    """It kept no digest, so nothing can be said against the request."""
    first = ask(ONE)
    with house.db.write() as tx:
        tx.execute(update(REQUEST).values(digest=None))

    assert first == ask(NoteInput(content="two"))
