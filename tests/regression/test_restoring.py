"""Behaviours 73 to 78: a base rebuilt into a new one."""

import pytest

from knowledge.catalog import bases
from knowledge.errors import BaseNotFound, InvalidInput, InvalidOperation, ModelNotFound, StorageFailed, StorageFull, UnsafePath
from knowledge.ingestion import recovery
from knowledge.model.ids import BaseId
from knowledge.model.inputs import BaseInput, NoteInput
from knowledge.model.status import BaseStatus, ItemStatus
from tests.regression.failed import fail_base
from tests.regression.faults import Refused, hooked, raising, refusing

#: Each unlike its default.
SETTINGS = {
    "rerank_model": "r",
    "file_processor": "p",
    "chunk_size": 300,
    "chunk_overlap": 0,
    "chunk_strategy": "delimiter",
    "chunk_separator": "--",
    "threshold": 0.5,
    "document_count": 3,
    "fail_on_empty": True,
    "shard": "two",
}


def _rows(house, base):
    return [(item.id, item.status, item.source, item.relative_path) for item in house.items(base)]


@pytest.mark.parametrize("embedder", ["hashing", None])
@pytest.mark.parametrize("has_failed", [False, True])
def test_073_a_base_is_rebuilt_beside_the_old_one(house, docs, write, embedder, has_failed):
    """Failed or not, with the same model or another; its settings come along, and the old one is not touched.

    So does a file processor that is not installed any more.
    """
    settings = SETTINGS | {"group_id": house.service.create_group("papers").id}
    base = house.base(**settings | {"file_processor": None})
    with house.db.write() as tx:
        base = bases.change(tx, base.id, {"file_processor_id": settings["file_processor"]})
    house.add(base, docs, write("one.md", "one lighthouse"), NoteInput(content="two lighthouses"))
    house.work()
    if has_failed:
        fail_base(house, base)
    before = _rows(house, base)

    receipt = house.service.restore_base(base.id, "new", embedder)
    house.work()

    new = house.service.base("new")
    assert (BaseStatus.COMPLETED, embedder, 0) == (new.status, new.embedder, receipt.skipped_missing_sources)
    assert settings == {name: getattr(new, name) for name in BaseInput.model_fields if name not in ("name", "embedder")}
    assert before == _rows(house, base)
    assert house.raw(base) == house.raw(new)
    assert {ItemStatus.COMPLETED} == {item.status for item in house.items(new)}
    assert 3 == len(house.service.search(new.id, "lighthouse").hits)


def test_074_what_is_gone_is_skipped_and_counted(house, base, docs, write):
    """A stored file that is missing, a folder that is not there; one that cannot be looked at now is kept."""
    file, folder, other = house.add(base, write("one.md", "one"), docs, write("two.md", "two"))
    house.work()
    house.rt.files.remove(base.id, [file.relative_path])
    for path in sorted(docs.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    docs.rmdir()

    gone = house.service.restore_base(base.id, "without", None)
    docs.symlink_to(docs)  # a loop: the system can not tell whether there is a folder
    kept = house.service.restore_base(base.id, "with", None)
    house.work()

    assert (2, ["two.md"]) == (gone.skipped_missing_sources, [item.title for item in gone.items])
    assert (1, ["docs", "two.md"]) == (kept.skipped_missing_sources, sorted(item.title for item in kept.items))
    (looped,) = [house.item(item) for item in kept.items if item.title == "docs"]
    assert (ItemStatus.FAILED, True) == (looped.status, looped.error in ("path_unreadable", "path_not_found"))
    assert ItemStatus.COMPLETED is house.item(other).status
    assert house.exists(folder)


def test_075_nothing_left_to_restore_gives_an_empty_base(house, base, write):
    """Every root is counted; there is no job."""
    house.add(base, write("one.md", "one"), write("two.md", "two"))
    house.work()
    house.rt.files.remove(base.id, house.raw(base))
    before = len(house.jobs())

    receipt = house.service.restore_base(base.id, "new", "hashing")

    assert (2, []) == (receipt.skipped_missing_sources, list(receipt.items))
    assert before == len(house.jobs())
    assert 0 == house.service.base("new").item_count


@pytest.mark.parametrize("fault", [StorageFull(), UnsafePath(reason="a link was planted")])
def test_077_a_restore_that_is_refused_leaves_nothing(house, base, write, fault):
    """Neither a row, nor a directory; the error says what was refused."""
    house.add(base, write("one.md", "one"))
    house.work()

    with hooked(house, files={"stage_file": raising(fault)}), pytest.raises(InvalidOperation) as refusal:
        house.service.restore_base(base.id, "new", None)

    assert fault.code == refusal.value.details["reason"]["code"]
    assert [base.id] == [one.id for one in house.service.list_bases(include_deleting=True)] == house.rt.files.base_ids()


@pytest.mark.parametrize("table", ["knowledge_item", "knowledge_job"])
def test_077_a_restore_that_breaks_leaves_nothing(house, base, write, table):
    """An error that is none of ours is seen as it is; the new base is gone all the same."""
    house.add(base, write("one.md", "one"))
    house.work()

    with refusing(house, f"INSERT ON {table}"), pytest.raises(Refused):
        house.service.restore_base(base.id, "new", None)

    assert [base.id] == [one.id for one in house.service.list_bases(include_deleting=True)] == house.rt.files.base_ids()


def test_077_a_source_that_cannot_even_be_looked_at_makes_no_base(house, base, write):
    """What is refused before the new base is made leaves none."""
    house.add(base, write("one.md", "one"))
    house.work()

    with hooked(house, files={"local": raising(UnsafePath(reason="a link was planted"))}), pytest.raises(UnsafePath):
        house.service.restore_base(base.id, "new", None)

    assert [base.id] == [one.id for one in house.service.list_bases(include_deleting=True)] == house.rt.files.base_ids()


def test_077_a_base_that_cannot_be_taken_back_is_hidden(house, base, write):
    """The next sweep removes it, and its name is free meanwhile."""
    house.add(base, write("one.md", "one"))
    house.work()
    faults = {"stage_file": raising(StorageFull()), "remove_base": raising(StorageFailed("no right"))}

    with hooked(house, files=faults), pytest.raises(InvalidOperation) as refusal:
        house.service.restore_base(base.id, "new", None)

    assert StorageFull.code == refusal.value.details["reason"]["code"]
    assert [base.id] == [one.id for one in house.service.list_bases()]
    house.service.restore_base(base.id, "new", None)
    recovery.sweep(house.rt)
    assert ["new", base.name] == [one.name for one in house.service.list_bases(include_deleting=True)]


def test_078_only_roots_are_copied(house, base, root, docs):
    """A directory expands again, from its folder as it is now."""
    (docs / "new.md").write_text("new")

    receipt = house.service.restore_base(base.id, "new", None)

    assert ["docs"] == [item.title for item in receipt.items] == [item.title for item in house.items(receipt.base)]
    house.work()
    assert ["docs/a.md", "docs/inner/b.md", "docs/inner/deep/c.md", "docs/new.md"] == house.raw(receipt.base)


@pytest.mark.parametrize("name", ["shelf", " shelf ", "", "  "])
def test_a_restored_base_has_a_name_of_its_own(house, base, name):
    """One that is taken, or blank, is refused before anything is made."""
    with pytest.raises(InvalidInput) as refusal:
        house.service.restore_base(base.id, name, None)

    assert "name" == refusal.value.details["field"]
    assert [base.id] == [one.id for one in house.service.list_bases(include_deleting=True)]


def test_a_restore_names_what_is_not_there(house, base):
    """Neither base nor model: 404, and nothing is made."""
    with pytest.raises(BaseNotFound):
        house.service.restore_base(BaseId("nowhere"), "new", None)
    with pytest.raises(ModelNotFound):
        house.service.restore_base(base.id, "new", "nowhere")
    with refusing(house, "INSERT ON knowledge_base"), pytest.raises(Refused):
        house.service.restore_base(base.id, "new", None)

    assert [base.id] == [one.id for one in house.service.list_bases(include_deleting=True)]
