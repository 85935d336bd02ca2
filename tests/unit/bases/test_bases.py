"""Bases come whole or not at all, and go for good."""

import json
import os
import signal
import threading
from zipfile import ZipFile

import pytest
from pydantic import ValidationError

from knowledge.catalog import bases, jobs
from knowledge.catalog.rows import BASE
from knowledge.errors import (
    BaseBusy,
    BaseFailed,
    BaseNotFound,
    IndexFault,
    InvalidInput,
    InvalidOperation,
    ModelNotFound,
    StorageFailed,
)
from knowledge.files.local import LocalRawFiles
from knowledge.ingestion import index, recovery
from knowledge.ingestion.run import perform
from knowledge.ingestion.tidy import tidy
from knowledge.model.inputs import BaseInput, BaseQuery, NoteInput
from knowledge.model.jobs import JobStatus
from knowledge.model.status import BaseStatus
from knowledge.pipeline.vectorstore.sqlite import SqliteIndexStores
from tests.house import DIMENSIONS
from tests.waiting import PATIENCE_SECONDS


def no_trace(house, base_id):
    return not (house.root / "bases" / base_id).exists() and not (house.root / "locks" / base_id).exists()


def test_a_new_base_has_its_index_and_the_defaults(house):
    """Model and width come together; chunking is the usual one."""
    base = house.base()

    assert ("hashing", DIMENSIONS, 1024, 200, "structured", "hybrid") == (
        base.embedder,
        base.dimensions,
        base.chunk_size,
        base.chunk_overlap,
        base.chunk_strategy,
        base.mode,
    )
    assert house.rt.indexes.exists(base.id)
    assert "lexical" == house.base(None).mode


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": " "},
        {"chunk_size": 100},
        {"chunk_overlap": 1024},
        {"chunk_size": 0},
        {"chunk_strategy": "delimiter", "chunk_separator": ""},
        {"threshold": 1.5},
        {"document_count": 0},
        {"unknown": 1},
        {"name": "half \ud800 a pair"},
        {"shard": "main.*"},
        {"shard": "a.b"},
        {"shard": "#"},
    ],
)
def test_inputs_that_make_no_sense_are_refused_at_the_edge(wrong):
    """A shard is one word of a routing key; everything else is the base's own rule."""
    with pytest.raises(ValidationError):
        BaseInput(**{"name": "shelf"} | wrong)


def test_an_undeclared_model_makes_no_base(house):
    """Nothing is stored."""
    with pytest.raises(ModelNotFound):
        house.base("nobody")

    assert [] == house.service.list_bases(include_deleting=True)


@pytest.mark.parametrize("error", [IndexFault, StorageFailed, OSError, KeyboardInterrupt])
def test_a_base_whose_index_cannot_be_made_leaves_nothing(house, monkeypatch, error):
    """Neither row nor folder, and the error of the index is the one seen."""
    made = []

    def breaks(self, base_id, dimensions):
        made.append(base_id)
        raise error

    monkeypatch.setattr(SqliteIndexStores, "create", breaks)
    with pytest.raises(error):
        house.base()

    assert [] == house.service.list_bases(include_deleting=True)
    assert not (house.root / "bases" / made[0]).exists()


def test_a_failing_clean_up_does_not_hide_the_error(house, monkeypatch):
    """The base is hidden, and recovery removes it."""

    def no_index(self, base_id, dimensions):
        raise IndexFault

    def stuck(self, base_id):
        raise StorageFailed

    monkeypatch.setattr(SqliteIndexStores, "create", no_index)
    with monkeypatch.context() as patched:
        patched.setattr(LocalRawFiles, "remove_base", stuck)
        with pytest.raises(IndexFault):
            house.base()

    (left,) = house.service.list_bases(include_deleting=True)
    assert [] == house.service.list_bases()
    recovery.sweep(house.rt)
    assert [] == house.service.list_bases(include_deleting=True)
    assert no_trace(house, left.id)


@pytest.fixture
def bundle(tmp_path):
    """One note, `n.md`."""
    row = {"id": "n", "type": "note", "source": "n", "relative_path": "n.md", "data": {"content": "from the bundle"}}
    with ZipFile(tmp_path / "bundle.zip", "w") as archive:
        archive.writestr("base.json", json.dumps({"format": 1, "base": {"name": "moved"}, "items": [row]}))
        archive.writestr("raw/n.md", "from the bundle")
    return tmp_path / "bundle.zip"


@pytest.fixture
def old(house, docs_of):
    """A base to restore from."""
    old = house.base()
    house.add(old, docs_of / "a.md")
    house.work()
    return old


@pytest.fixture(params=["create", "import", "restore"])
def making(request, house, bundle, old):
    """(port, method, call): makes a base, and what it calls when that is half made."""
    return {
        "create": (SqliteIndexStores, "create", house.base),
        "import": (LocalRawFiles, "stage_stream", lambda: house.service.import_base(bundle)),
        "restore": (LocalRawFiles, "stage_file", lambda: house.service.restore_base(old.id, "new", None)),
    }[request.param]


def half_made(house, old):
    (new,) = [base for base in house.service.list_bases(include_deleting=True) if base.id != old.id]
    return new


def test_a_new_base_is_seen_when_it_is_whole(house, old, making, monkeypatch):
    """Before that nobody finds it, nobody can add to it, and no sweep takes it for one that is being deleted."""
    port, method, call = making
    real, seen = getattr(port, method), []

    def look(*arguments, **options):
        new = half_made(house, old)
        with pytest.raises(BaseNotFound):
            house.notes(new, "mine")
        recovery.sweep(house.rt)
        seen.extend([house.service.list_bases(), house.service.find_bases(BaseQuery(include_deleting=True)).bases])
        return real(*arguments, **options)

    monkeypatch.setattr(port, method, look)
    call()

    assert [[old.id], [old.id]] == [[base.id for base in bases] for bases in seen]
    assert 2 == len(house.service.list_bases())


def test_a_maker_that_dies_leaves_nothing(house, old, making, monkeypatch):
    """The next sweep removes what it had begun, and it can be begun again."""
    port, method, call = making
    if (child := os.fork()) == 0:
        monkeypatch.setattr(port, method, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
        call()
        os._exit(0)
    assert -signal.SIGKILL == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = half_made(house, old)
    recovery.sweep(house.rt)

    assert no_trace(house, left.id)
    call()
    assert 2 == len(house.service.list_bases(include_deleting=True))


def test_of_two_restores_with_one_name_one_is_refused(house, old, monkeypatch):
    """Whichever ends last, although the name was free when it began."""
    real = LocalRawFiles.stage_file

    def overtaken(*arguments, **options):
        monkeypatch.setattr(LocalRawFiles, "stage_file", real)
        house.service.restore_base(old.id, "new", None)
        return real(*arguments, **options)

    monkeypatch.setattr(LocalRawFiles, "stage_file", overtaken)
    with pytest.raises(InvalidOperation) as refused:
        house.service.restore_base(old.id, "new", None)

    assert "name" == refused.value.details["reason"]["details"]["field"]
    assert ["new", "shelf"] == sorted(base.name for base in house.service.list_bases(include_deleting=True))


def test_names_find_bases_unless_two_share_one(house):
    """An id always wins; who asks for a shared name is told the ids."""
    first = house.service.create_base(BaseInput(name="one"))
    second = house.service.create_base(BaseInput(name=first.id))

    assert first.id == house.service.base("one").id
    assert first.id == house.service.base(first.id).id
    twin = house.service.create_base(BaseInput(name="one"))
    with pytest.raises(InvalidInput) as refused:
        house.service.base("one")
    assert {first.id, twin.id} == set(refused.value.details["ids"])
    with pytest.raises(BaseNotFound):
        house.service.base("nobody")
    assert second


@pytest.mark.parametrize("strange", ["", "%", "half \ud800 a pair", "\0", "'; DROP TABLE knowledge_base; --", "x" * 100_000])
def test_no_name_breaks_the_look_up(house, strange):
    """Whatever is typed ends in a typed error."""
    with pytest.raises((BaseNotFound, InvalidInput)):
        house.service.base(strange)


def test_deleting_removes_everything_and_touches_no_other_base(house, docs_of):
    """Files, index, rows, names, lock file; jobs remain as history."""
    base, other = house.base(), house.base()
    house.add(base, docs_of)
    house.add(other, docs_of)
    house.notes(base, "waiting")
    house.work(rounds=10_000)
    house.service.delete_base(base.id)

    assert no_trace(house, base.id)
    assert [other.id] == [one.id for one in house.service.list_bases(include_deleting=True)]
    assert [] == house.items(base)
    assert 3 == len([item for item in house.items(other) if item.type == "file"])
    with pytest.raises(BaseNotFound):
        house.service.delete_base(base.id)


@pytest.fixture
def docs_of(tmp_path):
    (tmp_path / "docs" / "inner").mkdir(parents=True)
    for name in ("a.md", "b.md", "inner/c.md"):
        (tmp_path / "docs" / name).write_text(f"lighthouse {name}")
    return tmp_path / "docs"


def test_waiting_jobs_of_a_deleted_base_never_run(house):
    """They are closed with the mark; a late message finds nothing."""
    base = house.base()
    (item,) = house.notes(base, "lighthouse")
    job = house.job_of(item)
    house.service.delete_base(base.id)

    assert JobStatus.CANCELLED is house.service.job(job.id).status
    assert house.deliver(job.id) is None
    assert no_trace(house, base.id)


def test_a_running_job_is_given_time_and_then_loses_its_row(make_house):
    """Its late result reaches neither catalogue nor index."""
    house = make_house(settle_seconds=0.3)
    base = house.base()
    (item,) = house.notes(base, "lighthouse")
    run = house.claim(house.job_of(item))
    house.service.delete_base(base.id)
    perform(run, index.run)

    assert jobs.LEASE_REVOKED == house.service.job(run.job.id).error
    assert [] == house.items(base)
    assert not (house.root / "bases" / base.id / "raw").exists()


def test_a_running_job_that_stops_in_time_is_waited_for(house):
    """The delete goes on as soon as it has ended."""
    base = house.base()
    (item,) = house.notes(base, "lighthouse")
    run = house.claim(house.job_of(item))
    deleter = threading.Thread(target=house.service.delete_base, args=(base.id,))
    deleter.start()
    while not house.service.job(run.job.id).cancel_requested_at:
        assert deleter.is_alive()
    perform(run, index.run)
    deleter.join(PATIENCE_SECONDS)

    assert jobs.CANCELLED == house.service.job(run.job.id).error
    assert no_trace(house, base.id)


def test_a_base_that_cannot_be_removed_stays_hidden_and_can_be_deleted_again(house, monkeypatch):
    """Everything but delete is refused; the second try finishes."""
    base = house.base()
    house.notes(base, "lighthouse")

    def stuck(self, base_id):
        raise StorageFailed

    with monkeypatch.context() as patched:
        patched.setattr(LocalRawFiles, "remove_base", stuck)
        with pytest.raises(StorageFailed):
            house.service.delete_base(base.id)
    (shown,) = house.service.list_bases(include_deleting=True)

    assert shown.deleting_at is not None
    assert [] == house.service.list_bases()
    for call in (
        lambda: house.service.search(base.id, "lighthouse"),
        lambda: house.service.add_items(base.id, [NoteInput(content="x")]),
        lambda: house.service.list_items(base.id),
        lambda: house.service.delete_items(base.id, []),
        lambda: house.service.base(base.id),
    ):
        with pytest.raises(BaseNotFound):
            call()
    house.service.delete_base(base.id)
    assert no_trace(house, base.id)


def test_a_base_whose_lock_is_held_is_hidden_at_once(make_house):
    """The call tells that it is busy, but its jobs are closed and it is not found any more; recovery removes it."""
    house, other = make_house(lock_seconds=0.05), make_house()
    base = house.base()
    house.notes(base, "lighthouse")
    with other.rt.locks.base(base.id), pytest.raises(BaseBusy):
        house.service.delete_base(base.id)

    assert ([], JobStatus.CANCELLED) == (house.service.list_bases(), house.jobs()[0].status)
    recovery.sweep(house.rt)
    assert [] == house.service.list_bases(include_deleting=True)
    assert no_trace(house, base.id)


def test_a_base_can_be_deleted_while_others_wait_for_its_lock(house, make_house):
    """The waiter finds that it is gone; the deleter succeeds."""
    base = house.base()
    other = make_house()
    found = []

    def add():
        try:
            other.service.add_items(base.id, [NoteInput(content="x")])
        except BaseNotFound as error:
            found.append(error.code)

    adders = []
    drop = SqliteIndexStores.drop

    def drop_with_waiters(self, base_id):
        adders.extend(threading.Thread(target=add) for _ in range(3))
        for adder in adders:
            adder.start()
        drop(self, base_id)

    SqliteIndexStores.drop = drop_with_waiters
    try:
        house.service.delete_base(base.id)
    finally:
        SqliteIndexStores.drop = drop
    for adder in adders:
        adder.join()

    assert ["base_not_found"] * 3 == found
    assert [] == house.service.list_bases(include_deleting=True)


def test_two_deletes_at_once_both_end_well(house, make_house):
    """One does the work; the other finds it done, before or after."""
    base = house.base()
    house.notes(base, "lighthouse")
    ends = []

    def delete(one):
        try:
            one.service.delete_base(base.id)
            ends.append("done")
        except BaseNotFound:
            ends.append("was gone")

    deleters = [threading.Thread(target=delete, args=(one,)) for one in (house, make_house())]
    for deleter in deleters:
        deleter.start()
    for deleter in deleters:
        deleter.join()

    assert "done" in ends
    assert [] == house.service.list_bases(include_deleting=True)
    tidy(house.rt)
    assert no_trace(house, base.id)


def test_a_failed_base_can_be_listed_and_deleted_and_nothing_else(house):
    """Runtime work names the state and the reason."""
    base = house.base()
    house.notes(base, "lighthouse")
    house.work()
    with house.db.write() as tx:
        tx.execute(BASE.update().values(status=BaseStatus.FAILED, error="missing_vector_store"))

    for call in (lambda: house.service.search(base.id, "x"), lambda: house.notes(base, "x")):
        with pytest.raises(BaseFailed) as refused:
            call()
        assert "missing_vector_store" == refused.value.details["reason"]
    assert 1 == house.service.list_items(base.id).total
    house.service.delete_base(base.id)
    assert no_trace(house, base.id)


def test_counts_are_of_what_is_visible(house):
    """`deleting` items do not count."""
    base = house.base()
    first, _ = house.notes(base, "one", "two")
    house.service.delete_items(base.id, [first.id])

    assert 1 == house.service.list_bases()[0].item_count
    with house.db.read() as tx:
        assert "main" == bases.shard_of(tx, base.id)
