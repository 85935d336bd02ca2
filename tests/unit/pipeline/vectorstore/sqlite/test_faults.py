"""What goes wrong with the file becomes one of our errors and harms nothing else."""

import inspect
import logging
import threading

import apsw
import pytest

from knowledge.errors import (
    DatabaseBusy,
    IndexCorrupt,
    IndexFault,
    IndexMismatch,
    KnowledgeError,
    StorageFailed,
    StorageFull,
    Unavailable,
)
from knowledge.pipeline.vectorstore.sqlite import SqliteIndexStores
from knowledge.pipeline.vectorstore.sqlite.faults import FAULTS, translated
from tests.contracts.leaves import DIMENSIONS, leaf, vector_of
from tests.unit.pipeline.vectorstore.sqlite.soundness import assert_sound

OURS_TO_AVOID = {  # mistakes in our own calls: a plain `IndexFault` with the name is all one can say
    apsw.BindingsError,
    apsw.ConnectionNotClosedError,
    apsw.ConstraintError,
    apsw.EmptyError,
    apsw.ExecTraceAbort,
    apsw.ExecutionCompleteError,
    apsw.ExtensionLoadingError,
    apsw.ForkingViolationError,
    apsw.IncompleteExecutionError,
    apsw.InternalError,
    apsw.InvalidContextError,
    apsw.MismatchError,
    apsw.MisuseError,
    apsw.NoFTS5Error,
    apsw.NoLFSError,
    apsw.NoMemError,
    apsw.NotFoundError,
    apsw.RangeError,
    apsw.SQLError,
    apsw.ThreadingViolationError,
    apsw.TooBigError,
    apsw.VFSFileClosedError,
    apsw.VFSNotImplementedError,
    apsw.AuthError,
}


@pytest.fixture
def connection_hook():
    """Lets a test touch every connection opened from now on."""
    before = list(apsw.connection_hooks)
    yield apsw.connection_hooks.append
    apsw.connection_hooks[:] = before


@pytest.fixture
def hasty(tmp_path):
    """Stores that hardly wait for a lock."""
    stores = SqliteIndexStores(lambda base_id: tmp_path / base_id / "index.sqlite", busy_timeout_seconds=0.05)
    yield stores
    stores.close()


def test_every_error_of_the_driver_is_known():
    """A new error class of apsw must be looked at before it reaches anyone."""
    classes = {kind for _, kind in inspect.getmembers(apsw, inspect.isclass) if issubclass(kind, apsw.Error)}

    assert {apsw.Error} == classes - set(FAULTS) - OURS_TO_AVOID


@pytest.mark.parametrize("kind", sorted(OURS_TO_AVOID | set(FAULTS), key=lambda kind: kind.__name__))
def test_no_error_of_the_driver_leaves_the_store(kind):
    """Each becomes one of ours, naming the base and what SQLite said."""
    with pytest.raises(KnowledgeError) as caught, translated("b1"):
        raise kind("what happened")

    assert FAULTS.get(kind, (IndexFault, None))[0] is type(caught.value)
    assert ("b1", f"{kind.__name__}: what happened") == (caught.value.details["base_id"], caught.value.details["reason"])


def test_full_disk_is_said_and_harms_nothing(stores, connection_hook):
    """A rebuild that finds no space is rolled back; once there is space it succeeds."""
    pages = [60]
    connection_hook(lambda connection: connection.pragma("max_page_count", pages[0]))
    store = stores.create("full", DIMENSIONS)
    store.rebuild_material(leaf("small", "alpha"))

    with pytest.raises(StorageFull):
        store.rebuild_material(leaf("large", *(f"{n} {'word ' * 500}" for n in range(300))))

    assert ["small"] == list(store.item_ids())
    assert_sound(store.path)
    pages[0] = 1 << 30
    store.rest()
    store.rebuild_material(leaf("large", *(f"{n} {'word ' * 500}" for n in range(300))))
    assert ["large", "small"] == list(store.item_ids())


def test_locked_file_is_busy_for_writers_only(hasty):
    """While another process writes, a writer is told to come back and a reader sees the last commit."""
    store = hasty.create("busy", DIMENSIONS)
    store.rebuild_material(leaf("a", "alpha"))
    other = apsw.Connection(str(store.path))
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(DatabaseBusy) as caught:
        store.rebuild_material(leaf("b", "beta"))

    assert caught.value.transient
    assert ["a"] == [hit.item_id for hit in store.lexical("alpha", 10)]
    other.execute("ROLLBACK")
    store.rebuild_material(leaf("b", "beta"))
    assert ["a", "b"] == list(store.item_ids())


@pytest.mark.parametrize(
    "content", [b"not a database, but longer than its header " * 9, b"SQLite format 3\x00" + b"\xff" * 8176]
)
def test_file_that_is_no_database_is_corrupt(stores, tmp_path, content):
    """Opening it fails and leaves it as it is."""
    path = tmp_path / "broken" / ".knowledge" / "index.sqlite"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)

    with pytest.raises(IndexCorrupt):
        stores.open("broken", DIMENSIONS)

    assert content == path.read_bytes()


def test_damaged_pages_are_corrupt(stores):
    """Overwritten pages inside a valid file are reported by whoever meets them, and reclaiming does not fail."""
    store = stores.create("damaged", DIMENSIONS)
    store.rebuild_materials([leaf(f"i{n}", f"alpha {n} {'filler ' * 50}") for n in range(200)])
    store.reclaim()
    stores.close()
    size = store.path.stat().st_size
    with store.path.open("r+b") as file:
        file.seek(2 * 8192)
        file.write(b"\xa5" * (size - 2 * 8192))

    with pytest.raises(IndexCorrupt):
        stores.open("damaged", DIMENSIONS).lexical("alpha", 10)


def test_empty_file_is_a_blank_index(stores, tmp_path):
    """A file of 0 bytes, as a crash at creation leaves it, is laid out."""
    path = tmp_path / "blank" / ".knowledge" / "index.sqlite"
    path.parent.mkdir(parents=True)
    path.touch()

    assert [] == list(stores.open("blank", DIMENSIONS).item_ids())


def test_index_of_another_base_is_refused(stores, tmp_path):
    """A file that was copied to the wrong place is not used and not changed."""
    stores.create("mine", DIMENSIONS).rebuild_material(leaf("a", "alpha"))
    stores.close()
    (tmp_path / "mine").rename(tmp_path / "yours")

    with pytest.raises(IndexMismatch):
        stores.open("yours", DIMENSIONS)

    (tmp_path / "yours").rename(tmp_path / "mine")
    assert ["a"] == list(stores.open("mine", DIMENSIONS).item_ids())


def test_other_database_is_refused(stores, tmp_path):
    """A database that is no index at all is left alone."""
    path = tmp_path / "foreign" / ".knowledge" / "index.sqlite"
    path.parent.mkdir(parents=True)
    foreign = apsw.Connection(str(path))
    foreign.execute("CREATE TABLE precious (x)")

    with pytest.raises(IndexMismatch):
        stores.open("foreign", DIMENSIONS)

    assert ["precious"] == [name for (name,) in foreign.execute("SELECT name FROM sqlite_schema")]


def test_older_layout_is_emptied_loudly(stores, caplog):
    """Indexes can be rebuilt: one of an older layout starts blank, and an operator can see why."""
    store = stores.create("old", DIMENSIONS)
    store.rebuild_material(leaf("a", "alpha"))
    stores.close()
    apsw.Connection(str(store.path)).execute("UPDATE identity SET layout = 0")

    with caplog.at_level(logging.ERROR):
        reopened = stores.open("old", DIMENSIONS)

    assert [] == list(reopened.item_ids())
    assert ["index has an older layout and was emptied; index its items again"] == [record.message for record in caplog.records]
    reopened.rebuild_material(leaf("a", "alpha"))
    assert_sound(store.path)


def test_newer_layout_is_refused(stores):
    """What a newer program wrote is not thrown away by an older one."""
    store = stores.create("new", DIMENSIONS)
    store.rebuild_material(leaf("a", "alpha"))
    stores.close()
    apsw.Connection(str(store.path)).execute("UPDATE identity SET layout = 99")

    with pytest.raises(IndexMismatch):
        stores.open("new", DIMENSIONS)


def test_closing_ends_a_running_query_with_a_retryable_error(stores, connection_hook):
    """The caller learns that the store was closed, not what SQLite thinks of it; later calls learn the same."""
    running, go_on, outcome = threading.Event(), threading.Event(), []
    armed = threading.Event()

    def pause() -> bool:
        if armed.is_set() and not running.is_set():
            running.set()
            go_on.wait(30)
        return False

    connection_hook(lambda connection: connection.set_progress_handler(pause, 10))
    store = stores.create("closing", DIMENSIONS)
    store.rebuild_materials([leaf(f"i{n}", f"alpha {n}") for n in range(200)])
    armed.set()

    def ask() -> None:
        try:
            store.lexical("alpha", 200)
        except KnowledgeError as error:
            outcome.append(error)

    asker = threading.Thread(target=ask)
    asker.start()
    assert running.wait(30)
    store.close()
    go_on.set()
    asker.join(30)

    assert [Unavailable] == [type(error) for error in outcome]
    assert outcome[0].transient
    with pytest.raises(Unavailable):
        store.nearest(vector_of("alpha"), 1)


def test_unwritable_directory_is_storage_failed(tmp_path):
    """A path that cannot be made is the disk's fault, not the index's."""
    (tmp_path / "taken").write_text("a file where a directory should be")
    stores = SqliteIndexStores(lambda base_id: tmp_path / "taken" / base_id / "index.sqlite", busy_timeout_seconds=1)

    with pytest.raises(StorageFailed):
        stores.create("b", DIMENSIONS)


def test_reclaiming_never_fails_its_caller(hasty, caplog):
    """Neither a lock nor a closed store makes it raise; the log says what happened."""
    store = hasty.create("reclaim", DIMENSIONS)
    other = apsw.Connection(str(store.path))
    other.execute("BEGIN IMMEDIATE")
    store.reclaim()
    other.execute("ROLLBACK")
    store.close()
    store.reclaim()

    assert ["index space not given back"] * 2 == [record.message for record in caplog.records]
