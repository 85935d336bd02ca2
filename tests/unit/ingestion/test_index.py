"""Indexing one leaf, with a real HTTP embedder that fails on command: codes, attempts, money, and what is kept."""

import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select

from knowledge.catalog import jobs
from knowledge.catalog.rows import BASE, ITEM, SPEND
from knowledge.errors import DatabaseBusy, EmbedderSlowDown, IndexCorrupt, StorageFull
from knowledge.ingestion import index
from knowledge.ingestion import run as run_module
from knowledge.ingestion.run import perform
from knowledge.model.documents import EmbedderSpec
from knowledge.model.inputs import NoteInput
from knowledge.model.jobs import JobStatus
from knowledge.model.status import ItemStatus
from knowledge.pipeline.indexing.hashing_embedder import HashingEmbedder
from knowledge.pipeline.indexing.registry import EmbedderKind, Embedders
from knowledge.pipeline.vectorstore.sqlite.store import SqliteIndexStore
from knowledge.service import KnowledgeService
from tests.house import DIMENSIONS
from tests.unit.pipeline.readers.made import pdf

COMPLETED, FAILED, EMBEDDING = ItemStatus.COMPLETED, ItemStatus.FAILED, ItemStatus.EMBEDDING


@pytest.fixture
def paid(make_house, paid_spec):
    return make_house(paid_spec)


@pytest.fixture
def paid_base(paid):
    """Small chunks, so that one note takes several requests of two texts."""
    return paid.base("paid", chunk_size=60, chunk_overlap=0, chunk_strategy="delimiter", chunk_separator="\\n\\n")


def long_note(words="lighthouse", parts=6):
    """A note of several chunks, no two alike."""
    return NoteInput(content="\n\n".join(f"{words} {number} " + "keeper " * 40 for number in range(parts)))


def spends(house):
    with house.db.read() as tx:
        return tx.execute(select(SPEND).order_by(SPEND.c.created_at, SPEND.c.id)).all()


def test_each_request_is_paid_stored_and_told(paid, paid_base, paid_server):
    """One spend row a request, with base, item and job; every text sent once; found afterwards."""
    (item,) = paid.add(paid_base, long_note())
    paid.work()
    rows = spends(paid)
    chunks = paid.item(item).chunk_count

    assert COMPLETED is paid.item(item).status
    assert chunks >= 5
    assert [2] * (chunks // 2) + [1] * (chunks % 2) == [row.texts for row in rows]
    assert {(paid_base.id, item.id, paid.job_of(item).id, "paid")} == {
        (row.base_id, row.item_id, row.job_id, row.model) for row in rows
    }
    assert {1} == set(paid_server.sent().values())
    assert sum(row.tokens for row in rows) == paid.service.spend_total(paid_base.id).tokens
    assert item.id == paid.service.search(paid_base.id, "lighthouse keeper").hits[0].item_id


REFUSED = [
    ({"behaviour": "status", "status": 401, "code": "invalid_api_key"}, "embedder_refused", 401),
    ({"behaviour": "status", "status": 403}, "embedder_refused", 403),
    ({"behaviour": "status", "status": 404}, "embedder_refused", 404),
    ({"behaviour": "status", "status": 400}, "embedder_refused", 400),
    ({"behaviour": "status", "status": 429, "code": "insufficient_quota"}, "embedder_refused", 429),
]


@pytest.mark.parametrize(("rule", "code", "status"), REFUSED)
def test_a_refusal_fails_at_once_with_code_and_detail(paid, paid_base, paid_server, rule, code, status):
    """Asking again would not help: one request, one execution, and the item says what the provider said."""
    paid_server.behave(rule)
    (item,) = paid.add(paid_base, NoteInput(content="lighthouse"))
    paid.work(hurry=True)
    found, job = paid.item(item), paid.job_of(item)

    assert (FAILED, code) == (found.status, found.error)
    assert status == found.error_detail["status"]
    assert 1 == found.error_detail["attempt"]
    assert job.id == found.error_detail["job_id"]
    assert (JobStatus.FAILED, code) == (job.status, job.error)
    assert 1 == paid_server.requests()
    assert [] == spends(paid)


PASSING = [
    ({"behaviour": "status", "status": 500}, "embedder_unavailable"),
    ({"behaviour": "status", "status": 503}, "embedder_unavailable"),
    ({"behaviour": "close"}, "embedder_unavailable"),
    ({"behaviour": "html"}, "embedder_bad_answer"),
    ({"behaviour": "short"}, "embedder_bad_answer"),
    ({"behaviour": "nan"}, "embedder_bad_answer"),
    ({"behaviour": "infinity"}, "embedder_bad_answer"),
    ({"behaviour": "zeros"}, "embedder_bad_answer"),
    ({"behaviour": "empty"}, "embedder_bad_answer"),
    ({"behaviour": "wide"}, "embedder_bad_answer"),
    ({"behaviour": "indexes"}, "embedder_bad_answer"),
]


@pytest.mark.parametrize(("rule", "code"), PASSING, ids=lambda value: value["behaviour"] if isinstance(value, dict) else value)
def test_what_may_pass_is_tried_three_times_and_then_fails(paid, paid_base, paid_server, rule, code):
    """Three executions with back-off; in between the item is neither failed nor without a job."""
    assert_tried_three_times(paid, paid_base, paid_server, rule, code)


@pytest.mark.parametrize("paid_spec", [2.0], indirect=True)
def test_an_answer_that_comes_too_late_is_asked_for_three_times(paid, paid_base, paid_server):
    """The same."""
    assert_tried_three_times(paid, paid_base, paid_server, {"behaviour": "delay", "seconds": 2.5}, "embedder_unavailable")


def assert_tried_three_times(paid, paid_base, paid_server, rule, code):
    paid_server.behave(rule)
    (item,) = paid.add(paid_base, long_note(parts=2))
    job = paid.job_of(item)
    paid.deliver(job.id)
    between, waiting = paid.item(item), paid.job_of(item)
    paid.work(hurry=True)
    found, ended = paid.item(item), paid.job_of(item)

    assert (EMBEDDING, None) == (between.status, between.error)
    assert (JobStatus.PENDING, 1, code) == (waiting.status, waiting.attempt, waiting.error)
    assert waiting.scheduled_at - waiting.started_at >= timedelta(seconds=waiting.kind.backoff_seconds)
    assert (FAILED, code) == (found.status, found.error)
    assert 3 == found.error_detail["attempt"]
    assert found.error_detail["message"]
    assert (JobStatus.FAILED, code) == (ended.status, ended.error)


@pytest.mark.parametrize(("rule", "code"), PASSING, ids=lambda value: value["behaviour"] if isinstance(value, dict) else value)
def test_what_passes_is_forgotten(paid, paid_base, paid_server, rule, code):
    """After one bad answer the next execution completes; no error stays on item or job."""
    paid_server.behave(rule | {"times": 1})
    (item,) = paid.add(paid_base, long_note(parts=2))
    paid.work(hurry=True)
    job = paid.job_of(item)

    assert (COMPLETED, None, {}) == (paid.item(item).status, paid.item(item).error, paid.item(item).error_detail)
    assert (JobStatus.COMPLETED, 1, None, {}) == (job.status, job.attempt, job.error, job.error_detail)


@pytest.mark.parametrize(
    "rule",
    [
        {"behaviour": "status", "status": 429, "headers": {"Retry-After": "7"}},
        {"behaviour": "status", "status": 503, "headers": {"Retry-After": "7"}},
    ],
)
def test_slow_down_costs_time_and_no_attempt(paid, paid_base, paid_server, rule):
    """The row waits as long as the provider asks, outside the window; ten of them do not fail it."""
    paid_server.behave(rule | {"times": 10})
    (item,) = paid.add(paid_base, NoteInput(content="lighthouse"))
    paid.deliver(paid.job_of(item).id)
    waiting = paid.job_of(item)
    asked = paid.wait_of(waiting)
    paid.work(hurry=True)

    assert (JobStatus.PENDING, 0, "embedder_slow_down", None) == (
        waiting.status,
        waiting.attempt,
        waiting.error,
        waiting.published_at,
    )
    assert 7 <= asked < 9
    assert (COMPLETED, 0) == (paid.item(item).status, paid.job_of(item).attempt)


@pytest.mark.parametrize("rule", [PASSING[0][0], {"behaviour": "status", "status": 429}, REFUSED[0][0]])
def test_what_was_paid_before_the_fault_is_not_paid_again(paid, paid_base, paid_server, rule):
    """The first two requests of three succeed; whatever ends the run, their four texts are sent once."""
    paid_server.behave(rule | {"skip": 2, "times": 1})
    (item,) = paid.add(paid_base, long_note())
    paid.work(hurry=True)
    first = paid_server.answered()
    if FAILED is paid.item(item).status:
        paid.add(paid_base, long_note())
        paid.work(hurry=True)

    total = paid.service.spend_total(paid_base.id)

    assert 4 <= len(first)
    assert {1} == set(paid_server.answered().values())
    assert (len(paid_server.answered()), 4) == (total.texts, total.cached_texts)
    assert -(-total.texts // 2) == total.requests


@pytest.mark.parametrize("behaviour", ["short", "nan", "infinity", "zeros", "empty", "wide", "indexes"])
def test_what_a_bad_answer_cost_is_seen(paid, paid_base, paid_server, behaviour):
    """The provider bills what it has computed, whatever it is good for: each of the three answers is a row."""
    paid_server.behave({"behaviour": behaviour})
    (item,) = paid.add(paid_base, long_note(parts=2))
    paid.work(hurry=True)
    total = paid.service.spend_total(paid_base.id)

    assert "embedder_bad_answer" == paid.item(item).error
    assert 3 == paid_server.requests()
    assert (3, sum(paid_server.sent().values())) == (total.requests, total.texts)
    assert total.tokens > 0
    assert {item.id} == {row.item_id for row in spends(paid)}


def test_a_page_instead_of_an_answer_costs_nothing(paid, paid_base, paid_server):
    """No model was asked: it is of a proxy."""
    paid_server.behave({"behaviour": "html"})
    paid.add(paid_base, long_note(parts=2))
    paid.work(hurry=True)

    assert [] == spends(paid)


def test_the_good_vectors_of_a_bad_answer_are_kept(paid, paid_base, paid_server):
    """One NaN among two vectors: the good one is paid for, stored, and never asked for again."""
    paid_server.behave({"behaviour": "nan", "position": 0, "times": 1})
    (item,) = paid.add(paid_base, long_note(parts=2))
    paid.work(hurry=True)

    assert COMPLETED is paid.item(item).status
    assert [1, 2] == sorted(paid_server.sent().values())


def test_a_second_item_with_the_same_text_costs_nothing(paid, paid_base, paid_server):
    """The index has the vectors; not even the cache is asked."""
    first, second = paid.add(paid_base, long_note(), long_note())
    paid.work()

    assert [COMPLETED, COMPLETED] == [paid.item(one).status for one in (first, second)]
    assert {1} == set(paid_server.sent().values())


def test_another_base_of_the_same_model_pays_nothing_for_known_texts(paid, paid_base, paid_server):
    """The cache is by model and text; the spend row tells what was saved."""
    paid.add(paid_base, long_note())
    paid.work()
    other = paid.base("paid", chunk_size=60, chunk_overlap=0, chunk_strategy="delimiter", chunk_separator="\\n\\n")
    paid.add(other, long_note())
    paid.work()

    assert {1} == set(paid_server.sent().values())
    assert (0, 0, len(paid_server.sent())) == (
        paid.service.spend_total(other.id).requests,
        paid.service.spend_total(other.id).texts,
        paid.service.spend_total(other.id).cached_texts,
    )


def test_two_texts_under_one_name_keep_their_own_vectors(house, base):
    """Equal titles, different texts, and equal chunks inside one note: each is found by its own words."""
    one, two = house.add(
        base, NoteInput(content="alpha bravo", title="same"), NoteInput(content="charlie delta\n\ncharlie delta", title="same")
    )
    house.work()

    assert one.id == house.service.search(base.id, "alpha").hits[0].item_id
    assert two.id == house.service.search(base.id, "delta").hits[0].item_id


def test_a_model_that_is_no_longer_declared_fails_the_item_by_name(make_house, paid_spec):
    """Between add and indexing the operator removed it: the item says so, the base stays as it was."""
    before = make_house(paid_spec)
    base = before.base("paid")
    (item,) = before.notes(base, "lighthouse")
    later = make_house()
    later.deliver(before.job_of(item).id)
    kept = later.service.base(base.id)

    assert (FAILED, "model_not_found") == (later.item(item).status, later.item(item).error)
    assert ("paid", DIMENSIONS) == (kept.embedder, kept.dimensions)


def test_a_model_declared_with_another_width_fails_the_item_by_name(make_house):
    """Widths never mix in one index."""
    before = make_house(EmbedderSpec(id="m", kind="hashing", dimensions=8))
    (item,) = before.notes(before.base("m"), "lighthouse")
    later = make_house(EmbedderSpec(id="m", kind="hashing", dimensions=16))
    later.deliver(before.job_of(item).id)

    assert "dimension_mismatch" == later.item(item).error


@pytest.mark.parametrize("change", [{"chunk_size": 50}, {"chunk_separator": "x"}])
def test_a_base_whose_contract_changes_meanwhile_is_indexed_by_the_new_one(paid, paid_base, paid_server, change):
    """The commit compares; the row goes back without an attempt, and nothing of the old contract is published."""
    (item,) = paid.add(paid_base, long_note(parts=2))
    run = paid.claim(paid.job_of(item))
    paid_server.behave({"behaviour": "gate", "times": 1})
    worker = threading.Thread(target=perform, args=(run, index.run))
    worker.start()
    paid_server.wait_until_held()
    with paid.db.write() as tx:
        tx.execute(BASE.update().values(**change))
    paid_server.release()
    worker.join()
    waiting = paid.job_of(item)
    paid.work(hurry=True)

    assert (JobStatus.PENDING, 0) == (waiting.status, waiting.attempt)
    assert COMPLETED is paid.item(item).status


def test_a_vector_that_a_delete_takes_meanwhile_is_made_again(house, base, monkeypatch):
    """Two items share a text; the first goes while the second relies on its vector: the second completes all the same."""
    first, second = house.notes(base, "the very same words", "the very same words")
    house.deliver(house.job_of(first).id)
    cut = index._embed

    def delete_before_the_commit(rt, run, *arguments):
        vectors = cut(rt, run, *arguments)
        if house.exists(first):
            house.service.delete_items(base.id, [first.id])
            house.deliver(house.job_of(first).id)
        return vectors

    monkeypatch.setattr(index, "_embed", delete_before_the_commit)
    house.work(hurry=True)

    assert (COMPLETED, None) == (house.item(second).status, house.item(second).error)
    assert 0 == house.job_of(second).attempt


def is_gone(house, base):
    house.work(hurry=True)
    counts = house.rt.index(base).counts()
    return ([], [], 0, 0) == (house.items(base), house.raw(base), counts.materials, counts.units)


def test_deleted_while_it_waits_is_never_read(paid, paid_base, paid_server):
    """The message finds a closed row; no request is sent."""
    (item,) = paid.add(paid_base, long_note())
    job = paid.job_of(item)
    paid.service.delete_items(paid_base.id, [item.id])

    assert paid.deliver(job.id) is None
    assert is_gone(paid, paid_base)
    assert 0 == paid_server.requests()


def test_deleted_while_it_is_cut_ends_soon(make_house, monkeypatch):
    """Not when the last of its chunks is found: the run looks every few of them whether it is still wanted."""
    monkeypatch.setattr(run_module, "LOOK_SECONDS", 0)  # at each checkpoint
    measured = []

    class Measuring(HashingEmbedder):
        """A model that counts its own input; somebody deletes the item while it does."""

        def longest_prefix(self, text):
            measured.append(text)
            if len(measured) == 100:
                house.service.delete_items(base.id, [item.id])
            return len(text)

    house = make_house()
    spec = EmbedderSpec(id="measuring", kind="measuring", dimensions=DIMENSIONS)
    house.rt = replace(house.rt, embedders=Embedders([spec], {"measuring": EmbedderKind(open=Measuring)}))
    house.service = KnowledgeService(house.rt)
    base = house.base("measuring", chunk_size=20, chunk_overlap=0)
    (item,) = house.add(base, NoteInput(content="The keeper lit the lamp of the lighthouse at dusk. " * 10_000))
    house.deliver(house.job_of(item).id)

    assert 100 <= len(measured) < 300
    assert JobStatus.CANCELLED == house.jobs()[0].status
    assert is_gone(house, base)


def test_deleted_while_it_is_embedded_costs_no_further_request(paid, paid_base, paid_server):
    """The request in flight is the last one; nothing of the item stays."""
    (item,) = paid.add(paid_base, long_note())
    run = paid.claim(paid.job_of(item))
    paid_server.behave({"behaviour": "gate", "times": 1})
    worker = threading.Thread(target=perform, args=(run, index.run))
    worker.start()
    paid_server.wait_until_held()
    paid.service.delete_items(paid_base.id, [item.id])
    paid_server.release()
    worker.join()

    assert 1 == paid_server.requests()
    assert is_gone(paid, paid_base)


def test_deleted_inside_the_commit_is_removed_after_it(house, base, monkeypatch):
    """The delete waits for the base lock, then finds a completed item with its material, and removes both."""
    (item,) = house.notes(base, "lighthouse")
    run = house.claim(house.job_of(item))
    rebuild = SqliteIndexStore.rebuild_material
    deleting = threading.Thread(target=house.service.delete_items, args=(base.id, [item.id]))

    def rebuild_meanwhile(store, material):
        deleting.start()
        rebuild(store, material)

    monkeypatch.setattr(SqliteIndexStore, "rebuild_material", rebuild_meanwhile)
    perform(run, index.run)
    deleting.join()

    assert JobStatus.COMPLETED is house.service.job(run.job.id).status
    assert is_gone(house, base)


@pytest.mark.parametrize(
    ("error", "code", "attempts"),
    [(StorageFull, "storage_full", 3), (IndexCorrupt, "index_corrupt", 1), (RuntimeError, "internal_error", 3)],
)
def test_an_index_that_cannot_be_written_fails_the_item(house, base, monkeypatch, error, code, attempts):
    """Disk full is tried again, damage is not; a bug of ours is recorded without the document's words."""

    def breaks(store, material):
        raise error("secret words of the document")

    monkeypatch.setattr(SqliteIndexStore, "rebuild_material", breaks)
    (item,) = house.notes(base, "lighthouse")
    house.work(hurry=True)
    found = house.item(item)

    assert (FAILED, code, attempts) == (found.status, found.error, found.error_detail["attempt"])
    if error is RuntimeError:
        assert "secret" not in str(found.error_detail)
        assert "RuntimeError" == found.error_detail["exception"]


def test_an_error_with_details_that_json_does_not_take_is_recorded(house, base, monkeypatch):
    """A reader from elsewhere may put anything into its error; the item fails with it all the same."""

    def breaks(store, material):
        raise IndexCorrupt(path=house.root, blob=b"\xff", ok=1)

    monkeypatch.setattr(SqliteIndexStore, "rebuild_material", breaks)
    (item,) = house.notes(base, "lighthouse")
    house.work(hurry=True)

    assert ("index_corrupt", str(house.root), 1) == (
        house.item(item).error,
        house.item(item).error_detail["path"],
        house.item(item).error_detail["ok"],
    )


def test_a_busy_catalogue_uses_up_no_attempt(house, base, monkeypatch):
    """Somebody else's long write is no fault of this job, however often it happens."""
    begin = index._begin
    times = []

    def busy(rt, run):
        times.append(1)
        if len(times) < 6:
            raise DatabaseBusy
        return begin(rt, run)

    monkeypatch.setattr(index, "_begin", busy)
    (item,) = house.notes(base, "lighthouse")
    house.work(hurry=True)

    assert (COMPLETED, 0) == (house.item(item).status, house.job_of(item).attempt)


def test_a_run_asked_to_stop_while_the_embedder_asks_to_wait_is_closed(paid, paid_base, paid_server):
    """Two reasons to end at once: the row is cancelled, never left running until its lease is over."""
    (item,) = paid.add(paid_base, NoteInput(content="lighthouse"))
    run = paid.claim(paid.job_of(item))
    paid_server.behave({"behaviour": "status", "status": 429, "headers": {"Retry-After": "7"}})

    def ask_to_stop_and_go_on(rt, running):
        with rt.db.write() as tx:
            jobs.cancel_touching(tx, paid_base.id, [item.id])
        running._looked_at = float("inf")  # it looks once a second; here it has just looked
        raise EmbedderSlowDown

    perform(run, ask_to_stop_and_go_on)
    job, found = paid.job_of(item), paid.item(item)

    assert (JobStatus.CANCELLED, jobs.CANCELLED) == (job.status, job.error)
    assert (FAILED, "indexing_interrupted") == (found.status, found.error)


@pytest.mark.parametrize("before", [COMPLETED, ItemStatus.DELETING, None])
def test_a_stale_job_does_nothing_and_succeeds(house, base, before):
    """An item that is done, going or gone needs no work, and that is no failure."""
    (item,) = house.notes(base, "lighthouse")
    snapshot = house.raw(base)
    with house.db.write() as tx:
        if before is None:
            tx.execute(ITEM.delete())
        else:
            tx.execute(ITEM.update().values(status=before))
    job = house.deliver(house.job_of(item).id)

    assert JobStatus.COMPLETED is house.service.job(job.id).status
    assert 0 == house.rt.index(base).counts().materials
    assert snapshot == house.raw(base)


def test_lexical_bases_never_ask_an_embedder(paid, paid_server):
    """No model, no request, no spend row, and words are found."""
    base = paid.base(None)
    (item,) = paid.notes(base, "lighthouse keeper")
    paid.work()

    assert (0, []) == (paid_server.requests(), spends(paid))
    assert item.id == paid.service.search(base.id, "keeper").hits[0].item_id


def test_quality_of_a_reading_is_kept_with_its_item(house, tmp_path):
    """What the reader found is there for people: pages with and without text, charset, what was lost."""
    base = house.base()
    (tmp_path / "two.pdf").write_bytes(pdf("The lamp", b""))
    (tmp_path / "old.txt").write_bytes("Straße am Hafen, grün gestrichen".encode("cp1252"))
    (tmp_path / "cut.txt").write_bytes("Straße am Hafen, grün gestrichen und schön".encode() + b"\xc3")

    paged, old, cut = house.add(base, *(tmp_path / name for name in ("two.pdf", "old.txt", "cut.txt")))
    house.work()

    quality = house.item(paged).quality
    assert ("application/pdf", "pdf", 2, 1, 8) == (
        quality.media_type, quality.reader, quality.pages, quality.pages_with_text, quality.characters,
    )  # fmt: skip
    assert ("cp1252", 0) == (house.item(old).quality.charset, house.item(old).quality.replaced_characters)
    assert ("utf-8", 1) == (house.item(cut).quality.charset, house.item(cut).quality.replaced_characters)


def test_quality_of_a_note(house):
    """It is read like everything else."""
    (note,) = house.notes(house.base(), "The lamp and the boat are for the keeper of the tower.")
    house.work()

    quality = house.item(note).quality
    assert ("text/markdown", "snapshot", "en", 54) == (
        quality.media_type, quality.reader, quality.language, quality.characters,
    )  # fmt: skip
