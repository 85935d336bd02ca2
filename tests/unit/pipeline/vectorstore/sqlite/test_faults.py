"""What goes wrong with the file becomes one of our errors and harms nothing else."""

import inspect
import threading
from contextlib import suppress

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
from knowledge.model.documents import text_hash
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


@pytest.mark.parametrize("layout", ["no tables", "zero bytes"])
def test_empty_file_is_corrupt_and_can_be_laid_out(stores, tmp_path, layout):
    """As a crash at creation leaves it, or a full disk what was there: opening tells, creating makes it an index."""
    path = tmp_path / "blank" / ".knowledge" / "index.sqlite"
    path.parent.mkdir(parents=True)
    path.touch()
    if layout == "no tables":
        apsw.Connection(str(path)).pragma("user_version", 1)

    with pytest.raises(IndexCorrupt):
        stores.open("blank", DIMENSIONS)
    assert not stores.is_sound("blank", DIMENSIONS)
    assert [] == list(stores.create("blank", DIMENSIONS).item_ids())
    assert stores.is_sound("blank", DIMENSIONS)


@pytest.mark.parametrize("look", ["open", "is_sound", "exists"])
def test_file_that_cannot_be_looked_at_is_not_gone(tmp_path, look):
    """Gone would mean that everything in it is told as lost; a folder that is shut for a while is a fault of the disk."""
    (tmp_path / "loop").symlink_to("loop")
    stores = SqliteIndexStores(lambda base_id: tmp_path / "loop" / "index.sqlite", busy_timeout_seconds=0.05)
    given = ("b1",) if look == "exists" else ("b1", DIMENSIONS)

    with pytest.raises(StorageFailed):
        getattr(stores, look)(*given)


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


def test_older_layout_counts_as_lost(stores):
    """Indexes can be rebuilt: one of an older layout is told as one that is gone, and not emptied in silence."""
    store = stores.create("old", DIMENSIONS)
    store.rebuild_material(leaf("a", "alpha"))
    stores.close()
    apsw.Connection(str(store.path)).execute("UPDATE identity SET layout = 0")

    with pytest.raises(IndexCorrupt):
        stores.open("old", DIMENSIONS)
    assert not stores.is_sound("old", DIMENSIONS)


def test_newer_layout_is_refused(stores):
    """What a newer program wrote is not thrown away by an older one."""
    store = stores.create("new", DIMENSIONS)
    store.rebuild_material(leaf("a", "alpha"))
    stores.close()
    apsw.Connection(str(store.path)).execute("UPDATE identity SET layout = 99")

    with pytest.raises(IndexMismatch):
        stores.open("new", DIMENSIONS)


DAMAGE = {
    "text": "UPDATE content SET text = 'other words'",
    "text that is no text": "UPDATE content SET text = CAST(x'ff00ff' AS TEXT)",
    "no state": "DELETE FROM state",
    "short vector": "UPDATE vector SET data = x'00'",
    "short codes": "UPDATE code_block SET records = x'00'",
    "codes of nobody": "DELETE FROM vector",
    "blocks that are gone": "DELETE FROM code_block",
    "words that are gone": "DELETE FROM lexical_data WHERE id > 10",
    "unit without text": "DELETE FROM material",
    "table that is gone": "DROP TABLE vector",
    "identity of nonsense": "UPDATE identity SET layout = 'x'",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damage_inside_values_is_found(stores, damage):
    """What SQLite takes for data: nobody gets an error of the driver, of Python or of numpy, and it is told to be unsound."""
    store = stores.create("damaged", DIMENSIONS)
    store.rebuild_materials([leaf(f"i{n}", f"alpha {n}", "shared") for n in range(5)])
    stores.close()
    breaking = apsw.Connection(str(store.path))
    breaking.execute("PRAGMA ignore_check_constraints = on")
    breaking.execute(damage)
    breaking.close()

    for ask in (
        lambda index: index.delete_materials(["i1"]),
        lambda index: index.rebuild_material(leaf("i2", "beta")),
        lambda index: index.known_hashes([text_hash("shared")]),
        lambda index: index.lexical("alpha", 5),
        lambda index: index.nearest(vector_of("alpha"), 5),
        lambda index: list(index.units("i3")),
        lambda index: index.content("i3"),
        lambda index: index.reclaim(),
    ):
        with suppress(IndexFault):
            ask(stores.open("damaged", DIMENSIONS))
    assert not stores.is_sound("damaged", DIMENSIONS)


@pytest.mark.parametrize("page", [0, 1, 3, 6, 10, 15])
@pytest.mark.parametrize("damage", ["overwritten", "zeroed", "cut off"])
def test_damaged_files_end_in_our_errors(stores, page, damage):
    """Whatever page it is: each call works or is told that the index is damaged."""
    store = stores.create("damaged", DIMENSIONS)
    store.rebuild_materials([leaf(f"i{n}", f"alpha {n} {'filler ' * 200}", "shared") for n in range(40)])
    store.reclaim()
    stores.close()
    with store.path.open("r+b") as file:
        if damage == "cut off":
            file.truncate(page * 8192)
        else:
            file.seek(page * 8192)
            file.write((b"\xa5" if damage == "overwritten" else b"\0") * 8192)

    for ask in (
        lambda index: index.lexical("alpha", 5),
        lambda index: index.nearest(vector_of("alpha"), 5),
        lambda index: [list(index.units(f"i{n}")) for n in range(40)],
        lambda index: index.reclaim(),
        lambda index: index.rebuild_material(leaf("i2", "beta")),
        lambda index: index.delete_materials([f"i{n}" for n in range(20)]),
    ):
        with suppress(IndexFault):
            ask(stores.open("damaged", DIMENSIONS))
    assert not stores.is_sound("damaged", DIMENSIONS)
    stores.drop("damaged")
    assert [] == list(stores.create("damaged", DIMENSIONS).item_ids())


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
