"""An index whose file is damaged, empty or gone: deletes converge, what is lost does not look done, one command heals."""

import pytest

from knowledge.catalog import jobs
from knowledge.errors import IndexCorrupt, IndexFault, IndexMismatch, KnowledgeError
from knowledge.model.inputs import NoteInput, Strategy
from knowledge.model.jobs import JobStatus
from knowledge.model.status import ItemStatus
from knowledge.pipeline.vectorstore.sqlite import SqliteIndexStores
from tests.near import Near
from tests.regression.faults import Hooked, raising

DAMAGE = ["overwritten", "overwritten inside", "cut off", "emptied", "no database", "gone"]


def harm(house, base, damage):
    """Break the index file while no process has it open."""
    house.rt.indexes.close()
    path = house.root / "bases" / base.id / ".knowledge" / "index.sqlite"
    size = path.stat().st_size
    with path.open("r+b") as file:
        match damage:
            case "overwritten":
                file.write(b"\xa5" * size)
            case "overwritten inside":
                file.seek(8192)
                file.write(b"\xa5" * (size - 8192))
            case "cut off":
                file.truncate(size // 2)
            case "emptied":
                file.truncate(0)
            case "no database":
                file.truncate(0)
                file.write(b"somebody's shopping list\n" * 100)
    if damage == "gone":
        path.unlink()


@pytest.fixture
def shelf(house, base, docs):
    """A base with a directory and three notes, all indexed."""
    root, *notes = house.add(base, docs, *(NoteInput(content=f"the note on {name}") for name in ("tides", "fog", "birds")))
    house.work()
    return root, *notes


def told(house, base):
    """Status, error and passages of each row by name."""
    return {item.title: (item.status.value, item.error, item.chunk_count) for item in house.items(base)}


def finds(house, base, query):
    return [hit.text for hit in house.service.search(base.id, query).hits]


def heal(house, base):
    receipt = house.service.reindex_interrupted(base.id)
    house.work(hurry=True)
    return receipt


def is_whole(house, base):
    counts = house.rt.index(base).counts()
    with_text = [item for item in house.items(base) if item.chunk_count]
    return house.rt.indexes.is_sound(base.id, base.dimensions) and counts.materials == len(with_text)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_delete_converges_and_the_rest_can_be_made_again(house, base, shelf, docs, damage):
    """The item goes at the first try; what was in the file is failed with a reason; the sources are not needed to heal."""
    root, note, *_ = shelf
    harm(house, base, damage)
    house.service.delete_items(base.id, [note.id])
    house.work()

    assert not house.exists(note)
    assert [] == house.jobs(JobStatus.PENDING, JobStatus.RUNNING)
    rows = told(house, base)
    assert {("failed", "index_lost", None)} == {rows[name] for name in ("a.md", "b.md", "c.md")}
    assert ("failed", "child_failed", None) == rows["docs"]
    assert 5 == house.service.status_counts(base.id).leaves[ItemStatus.FAILED]
    assert [] == finds(house, base, "lighthouse")
    for path in sorted(docs.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()

    receipt = heal(house, base)

    assert 5 == len(receipt.root_ids)
    assert {"completed"} == {status for status, _, _ in told(house, base).values()}
    assert ["The lighthouse stands on the northern rock."] == finds(house, base, "northern rock")[:1]
    assert is_whole(house, base)
    assert [] == list(heal(house, base).root_ids)


@pytest.mark.parametrize(
    ("ask", "damage"), [*(("search", damage) for damage in DAMAGE), ("chunks", "overwritten inside"), ("preview", "emptied")]
)
def test_a_reader_is_told_once_and_finds_the_items_failed(house, base, shelf, damage, ask):
    """A typed error with the base and what to do; then answers of what there is; after healing all is found."""
    _, note, *_ = shelf
    harm(house, base, damage)
    asks = {
        "search": lambda: house.service.search(base.id, "tides"),
        "chunks": lambda: house.service.chunks(base.id, note.id),
        "preview": lambda: house.service.preview(note.id),
    }

    with pytest.raises(IndexCorrupt) as refusal:
        asks[ask]()

    assert ("index_corrupt", 500, base.id) == (
        refusal.value.code,
        refusal.value.http_status,
        refusal.value.details["base_id"],
    )
    assert ("failed", "index_lost", None) == told(house, base)[note.title]
    assert "text is still here" in house.service.why(note.id).explanation
    assert [] == finds(house, base, "tides")
    heal(house, base)
    asks[ask]()
    assert "the note on tides" in finds(house, base, "tides")


@pytest.mark.parametrize(
    ("way", "damage"), [*(("add", damage) for damage in DAMAGE), ("reindex", "overwritten inside"), ("replace", "cut off")]
)
def test_indexing_goes_on_in_a_new_file(house, base, shelf, damage, way, docs):
    """What is added or indexed again while the file is damaged is there afterwards; the others are told as lost."""
    root, note, *_ = shelf
    harm(house, base, damage)
    if way == "reindex":
        house.service.reindex_items(base.id, [root.id])
    else:
        strategy = Strategy.REPLACE if way == "replace" else Strategy.RENAME
        house.service.add_items(base.id, [NoteInput(content="the note on tides")], strategy=strategy)
    house.work(hurry=True)

    assert [] == house.jobs(JobStatus.PENDING, JobStatus.RUNNING)
    rows = told(house, base)
    done = {name for name, (status, _, _) in rows.items() if status == "completed"}
    assert {"add": {"the note on tides_1.md"}, "replace": {"the note on tides.md"}}.get(
        way, {"docs", "inner", "deep", "a.md", "b.md", "c.md"}
    ) == done
    assert is_whole(house, base)
    heal(house, base)
    assert {"completed"} == {status for status, _, _ in told(house, base).values()}
    assert is_whole(house, base)


def test_what_was_paid_is_not_paid_again(paid_house, paid_server):
    """Vectors of the lost index come from the cache."""
    base = paid_house.base("paid")
    notes = paid_house.notes(base, "the tides", "the fog", "the birds")
    paid_house.work()
    before = paid_server.stats()["requests"]
    harm(paid_house, base, "overwritten")
    paid_house.service.delete_items(base.id, [notes[0].id])
    paid_house.work()
    heal(paid_house, base)

    assert before == paid_server.stats()["requests"]
    assert is_whole(paid_house, base)


def test_what_failed_or_was_blank_before_keeps_its_own_reason(house, base, write):
    """Only what was done by being in the index is lost with it; an old text that a failed item still had is gone as well."""
    broken, blank, fine = house.add(base, write("x.json", '{"a": "lighthouse"}'), NoteInput(content=" "), write("y.md", "y"))
    house.work()
    write("x.json", "{")
    house.service.reindex_items(base.id, [broken.id])
    house.work(hurry=True)
    before = told(house, base)
    harm(house, base, "gone")
    house.service.delete_items(base.id, [fine.id])
    house.work()

    after = told(house, base)
    assert (before["x.json"][:2], None) == (after["x.json"][:2], after["x.json"][2])
    assert before[blank.title] == after[blank.title] == ("completed", None, 0)


def test_an_empty_base_without_a_file_has_lost_nothing(house, base):
    """As a crash while its model was changed leaves it: searching finds nothing, and adding works."""
    harm(house, base, "gone")

    assert [] == finds(house, base, "lighthouse")
    (note,) = house.notes(base, "the lighthouse")
    house.work()
    assert ItemStatus.COMPLETED is house.item(note).status


def test_a_sound_index_is_kept_whatever_fails(house, base, shelf, monkeypatch):
    """A fault of ours, or of the disk for a moment, is no reason to throw an index away: the delete comes back."""
    _, note, *_ = shelf
    store = house.rt.indexes.open(base.id, base.dimensions)
    faulty = Hooked(store, delete_materials=raising(IndexFault("a mistake of ours")))
    house.service.delete_items(base.id, [note.id])
    monkeypatch.setattr(house.rt.indexes, "open", lambda *_: faulty)
    house.deliver(house.sender.waiting.popleft())
    monkeypatch.undo()

    assert ("deleting", "completed") == (house.item(note).status, house.item(shelf[2]).status)
    assert "index_fault" == house.job_of(note).error
    house.work(hurry=True)
    assert not house.exists(note)
    assert is_whole(house, base)


def test_the_index_of_another_base_is_not_thrown_away(house, base, shelf):
    """Two folders that were swapped by hand can be swapped back: work is refused until then, and loses nothing."""
    _, note, *_ = shelf
    other = house.base()
    house.rt.indexes.close()
    mine, theirs = (house.root / "bases" / one.id / ".knowledge" for one in (base, other))
    aside = mine.with_name("aside")
    mine.rename(aside), theirs.rename(mine), aside.rename(theirs)
    with pytest.raises(IndexMismatch):
        house.service.search(base.id, "tides")
    house.service.delete_items(base.id, [note.id])
    house.deliver(house.sender.waiting.popleft())
    house.rt.indexes.close()
    mine.rename(aside), theirs.rename(mine), aside.rename(theirs)

    assert ["the note on fog"] == finds(house, base, "fog")[:1]
    house.work(hurry=True)
    assert not house.exists(note)
    assert is_whole(house, base)


@pytest.mark.parametrize(("moment", "is_told"), [("is_sound", False), ("drop", True), ("create", True)])
def test_a_crash_while_it_is_replaced_leaves_the_damage_to_be_found_again(house, base, shelf, monkeypatch, moment, is_told):
    """The rows come first; then the file may be gone."""
    _, first, second, third = shelf
    harm(house, base, "overwritten")
    house.service.delete_items(base.id, [first.id])
    with monkeypatch.context() as patched:
        patched.setattr(SqliteIndexStores, moment, raising(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            house.deliver(house.sender.waiting.popleft())
    expected = ("failed", "index_lost", None) if is_told else ("completed", None, 1)
    assert expected == told(house, base)[third.title]
    for job in house.jobs(JobStatus.RUNNING):
        with house.db.write() as tx:
            jobs.put_back(tx, job, delay_seconds=0)
    house.work(hurry=True)
    heal(house, base)

    assert not house.exists(first)
    assert ["the note on fog"] == finds(house, base, "fog")[:1]
    assert is_whole(house, base)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_base_with_a_damaged_index_is_deleted(house, base, shelf, damage):
    """Whole."""
    harm(house, base, damage)
    house.service.delete_base(base.id)

    assert [] == house.rt.files.base_ids()


def test_a_client_heals_what_it_may_not_read_again(house, base, docs, tmp_path):
    """Stored bytes are no source: nothing outside the import roots is read."""
    near = Near(house, [tmp_path / "inbox"])
    house.add(base, docs)
    house.work()
    harm(house, base, "gone")
    with pytest.raises(KnowledgeError):
        near.search(base.id, "lighthouse")
    near.reindex_interrupted(base.id)
    house.work()

    assert ["The lighthouse stands on the northern rock."] == [hit.text for hit in near.search(base.id, "northern").hits][:1]
