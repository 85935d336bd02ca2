"""Hourly tidying removes what nobody owns, and nothing else."""

import os
import threading
import time

import pytest

from knowledge.errors import BaseNotFound
from knowledge.ingestion.tidy import tidy
from knowledge.model.inputs import NoteInput


def age(path, hours=2.0):
    then = time.time() - hours * 3600
    os.utime(path, (then, then))


@pytest.fixture
def raw(house, base, docs):
    house.add(base, docs, docs / "a.md")
    house.notes(base, "a note")
    house.work()
    return house.root / "bases" / base.id / "raw"


def test_old_files_that_no_row_names_go_and_all_others_stay(house, base, raw):
    """Whatever an item owns is kept however old it is; a young stranger may belong to a commit under way."""
    mine = house.raw(base)
    for path in raw.rglob("*"):
        age(path)
    (raw / "docs" / "lost.md").write_text("lost")
    (raw / "crash").mkdir()
    (raw / "crash" / "deep.md").write_text("lost")
    (raw / "young.md").write_text("perhaps")
    age(raw / "docs" / "lost.md")
    age(raw / "crash" / "deep.md")

    assert tidy(house.rt)
    assert sorted([*mine, "young.md"]) == house.raw(base)
    assert not (raw / "crash").exists()


def test_files_of_items_that_are_being_deleted_are_left_to_their_job(house, base, raw):
    """A row that is `deleting` still names its bytes."""
    mine = house.raw(base)
    for path in raw.rglob("*"):
        age(path)
    house.service.delete_items(base.id, [item.id for item in house.items(base)])
    tidy(house.rt)

    assert mine == house.raw(base)


def test_bytes_that_nobody_published_go(house, base):
    """Staged copies of a process that died, after a day: an import may copy for hours before it commits."""
    dead, at_work = (house.rt.files.stage_text(base.id, text) for text in ("dead", "at work"))
    age(house.root / "bases" / base.id / "staging" / dead.token, hours=25)
    age(house.root / "bases" / base.id / "staging" / at_work.token, hours=23)
    tidy(house.rt)

    assert [at_work.token] == [path.name for path in (house.root / "bases" / base.id / "staging").iterdir()]


def test_what_a_late_process_wrote_into_a_deleted_base_goes(house, base, docs):
    """Raw bytes, staging and index of a base without a row, its lock file included; other folders are not ours."""
    house.service.delete_base(base.id)
    house.rt.files.stage_text(base.id, "late")
    house.rt.indexes.create(base.id, base.dimensions).counts()
    (house.root / "bases" / "somebody's folder").mkdir()
    kept = house.base()
    tidy(house.rt)

    assert [kept.id] == house.rt.files.base_ids()
    assert (house.root / "bases" / "somebody's folder").exists()
    assert not (house.root / "locks" / base.id).exists()


def test_one_base_that_cannot_be_tidied_does_not_keep_the_others_from_it(make_house):
    """A busy base is for the next round."""
    house = make_house(lock_seconds=0.05)
    bases = [house.base(), house.base()]
    for base in bases:
        stranger = house.root / "bases" / base.id / "raw" / "lost.md"
        stranger.parent.mkdir(parents=True)
        stranger.write_text("lost")
        age(stranger)
    other = make_house(lock_seconds=0.05)
    with other.rt.locks.base(bases[0].id):
        tidy_in_thread(house)

    assert [["lost.md"], []] == [house.raw(base) for base in bases]


def test_a_stray_file_among_the_locks_does_not_end_the_round(house, base):
    """Its name cannot be a base's."""
    stranger = house.root / "bases" / base.id / "raw" / "lost.md"
    stranger.parent.mkdir(parents=True)
    stranger.write_text("lost")
    age(stranger)
    (house.root / "locks" / ".DS_Store").touch()

    assert tidy(house.rt)
    assert [] == house.raw(base)


def tidy_in_thread(house):
    """Locks are by thread, so the holder and the tidier must be two."""
    tidier = threading.Thread(target=tidy, args=(house.rt,))
    tidier.start()
    tidier.join()


def test_a_second_tidier_returns_at_once(house):
    """One at a time is enough."""
    with house.rt.locks.single_flight("tidy"):
        assert not tidy(house.rt)


@pytest.mark.parametrize("base_id", ["nobody", "../../etc", "", "a/b", "9c527afa-f0e9-40fc-b9f7-255bcedb3239"])
@pytest.mark.parametrize("operation", ["delete_items", "delete_base", "add_items", "search", "list_items"])
def test_an_unknown_base_is_a_typed_error_and_leaves_no_trace(house, operation, base_id):
    """Whatever is given for an id: no lock file, no folder, no other error."""
    call = getattr(house.service, operation)
    rest = {"delete_items": [["x"]], "add_items": [[NoteInput(content="x")]], "search": ["words"]}.get(operation, [])

    with pytest.raises(BaseNotFound):
        call(base_id, *rest)
    assert [] == list((house.root / "locks").glob("*"))
    assert [] == house.rt.files.base_ids()
