"""What is deleted or replaced is nowhere on the disk once the base is at rest, whoever took it out and whoever died."""

import os

import pytest

from knowledge.ingestion import recovery
from knowledge.ingestion.tidy import tidy
from knowledge.model.inputs import NoteInput, Strategy
from knowledge.model.jobs import JobType
from tests.regression.faults import hooked

GONE = (b"zqnote", b"zqtitle")


def holding(root, *words):
    """(file, word) for every file below that shows one of these words."""
    files = [path for path in root.rglob("*") if path.is_file()]
    return [(path, word) for path in files for word in words if word in path.read_bytes()]


def secret():
    return NoteInput(content="zqnote111 and others " * 40, title="zqtitle111")


def test_a_replaced_text_is_wiped_by_the_job_that_found_nothing_to_remove(house, base):
    """Whoever replaced it has purged it before; the delete job comes after it and wipes all the same."""
    house.add(base, secret())
    house.work()
    before = holding(house.root, GONE[0])
    new = NoteInput(content="harmless", title="zqtitle111")
    house.service.add_items(base.id, [new], strategy=Strategy.REPLACE)
    house.work()

    assert before
    assert [] == holding(house.root, GONE[0])


def test_a_death_between_purge_and_wipe_leaves_nothing_behind(house, base):
    """The next delivery finds no rows; the index itself says that there is something to wipe."""
    (item,) = house.add(base, secret())
    house.work()
    house.service.delete_items(base.id, [item.id])
    job = house.job_of(item)
    child = os.fork()
    if child == 0:
        with hooked(house, indexes={"exists": lambda _: os._exit(9)}):  # asked for first when all rows are gone
            house.deliver(job.id)
        os._exit(0)
    assert 9 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert not house.exists(item)
    before = holding(house.root, *GONE)
    recovery.settle_dead_of_this_host(house.rt)
    house.work(hurry=True)

    assert before
    assert [] == holding(house.root, *GONE)
    assert not house.rt.index(base).is_to_wipe()


@pytest.mark.parametrize("ended", [JobType.DELETE_SUBTREE, None])
def test_a_reindexed_text_is_wiped_by_the_next_delete_or_the_hourly_round(house, base, tmp_path, ended):
    """A reindex itself wipes nothing: index jobs are many."""
    source = tmp_path / "log.txt"
    source.write_text("zqnote111 and others " * 40)
    (item,) = house.add(base, source)
    (other,) = house.notes(base, "another")
    house.work()
    source.write_text("harmless")
    house.service.reindex_items(base.id, [item.id])
    house.work()
    before = holding(house.root, GONE[0])
    if ended is None:
        tidy(house.rt)
    else:
        house.service.delete_items(base.id, [other.id])
        house.work()

    assert before
    assert [] == holding(house.root, GONE[0])
    assert [item.id] == [hit.item_id for hit in house.service.search(base.id, "harmless").hits][:1]


def test_many_deletes_that_wait_are_wiped_once(house, base, caplog):
    """By the last of them."""
    items = house.add(base, *(NoteInput(content=f"zqnote{number}") for number in range(4)))
    house.work()
    for item in items:
        house.service.delete_items(base.id, [item.id])
    with caplog.at_level("INFO"):
        house.work()

    assert 1 == [record.message for record in caplog.records].count("index file rewritten")
    assert [] == holding(house.root, GONE[0])


def test_the_hourly_round_leaves_alone_what_nothing_was_taken_from(house, base, caplog):
    """Neither a base that only grew, nor one that has been wiped."""
    (item, _) = house.notes(base, "zqnote", "another")
    house.work()
    with caplog.at_level("INFO"):
        tidy(house.rt)
        grown = caplog.text
        house.service.delete_items(base.id, [item.id])
        house.work()
        caplog.clear()
        tidy(house.rt)

    assert "rewritten" not in grown + caplog.text


def test_the_hourly_round_wipes_the_catalogue_of_a_job_that_died_at_its_end(house, base):
    """Deleted rows whose words are still in the catalogue's log."""
    (item,) = house.add(base, secret())
    house.work()
    house.service.delete_items(base.id, [item.id])
    child = os.fork()
    if child == 0:
        with hooked(house, db={"wipe": lambda: os._exit(9)}):
            house.work()
        os._exit(0)
    assert 9 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    before = holding(house.root, *GONE)
    tidy(house.rt)

    assert before
    assert [] == holding(house.root, *GONE)
