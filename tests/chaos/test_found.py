"""Sequences in which the model once found a broken promise, each as short as it could be made."""

from collections.abc import Iterator

import pytest

from knowledge.model.inputs import DirectoryInput, FileInput, NoteInput
from tests.chaos.fate import Fate, Kind
from tests.chaos.machine import settle
from tests.chaos.world import World

PAID, LEXICAL = 0, 1  #: numbers that `create_base` understands


@pytest.fixture
def world() -> Iterator[World]:
    with World() as made:
        yield made


def shelf(world: World, embedder: int, *names: tuple[int, int]):
    """A base, and a folder with these files."""
    for folder, name in names:
        world.write_source(folder, name, shared=1)
    world.create_base(embedder)
    return world.bases()[0]


def statuses(world: World, base) -> list[tuple[str, str | None]]:
    return [(row["status"], row["error"]) for row in world.items(base["id"])]


def test_late_message_does_not_jump_the_window(world):
    """Its row was taken out of the window and another took the place; the message waits as its row does."""
    base = shelf(world, PAID)
    world.add(base, [NoteInput(content=world.text(number)) for number in range(3)], 0, None)
    late = world.broker.messages[0]
    world.passes(5)
    world.requeue(late)

    world.deliver(late, Fate(Kind.HELD_UP, 1, "checkpoint"))

    world.ledger.look()
    assert [] == world.held
    settle(world)


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_folder_made_for_a_file_that_never_came_is_tidied(world, step):
    """An expansion was killed between making the folder and renaming the file into it."""
    base = shelf(world, PAID, (0, 0), (1, 1))
    world.add(base, [DirectoryInput(path=world.source / "shelf")], 0, None)

    world.deliver(world.broker.messages.pop(0), Fate(Kind.FORKED, step, "file.mkdir"))

    settle(world)


@pytest.mark.parametrize("job", range(3))
def test_lost_backfill_shows(world, job):
    """A base got its first embedder, and the job that was to bring the vectors was killed: nothing may look complete."""
    base = shelf(world, LEXICAL, (0, 0), (1, 1))
    world.add(base, [DirectoryInput(path=world.source / "shelf")], 0, None)
    world.come_to_rest(seconds=70)
    world.enable(base, 0)
    for _ in range(job):
        world.deliver(world.broker.messages.pop(0))

    world.deliver(world.broker.messages.pop(0), Fate(Kind.KILLED, 1, "checkpoint"))

    settle(world)
    assert ("failed", "indexing_interrupted") in statuses(world, base)
    world.reindex_interrupted(base)
    world.come_to_rest(seconds=70)
    assert {("completed", None)} == set(statuses(world, base))


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_backfill_indexes_the_stored_bytes_of_a_source_that_vanished(world, kind):
    """It needs vectors, not news; skipping it would leave a completed item without any."""
    base = shelf(world, LEXICAL, (0, 0), (0, 1))
    folder = world.source / "shelf"
    world.add(base, [FileInput(path=folder / "a.txt") if kind == "file" else DirectoryInput(path=folder)], 0, None)
    world.come_to_rest(seconds=70)
    world.enable(base, 0)
    world.remove_source(0)

    settle(world)

    assert {("completed", None)} == set(statuses(world, base))


def test_reindex_goes_on_without_a_root_that_was_deleted(world):
    """One job for both: what is left of it must not vanish with the other."""
    base = shelf(world, PAID)
    world.add(base, [NoteInput(content=world.text(number)) for number in range(2)], 0, None)
    world.come_to_rest(seconds=70)
    one, other = [row["id"] for row in world.items(base["id"])]
    world.reindex(base, [one, other])

    world.delete_items(base, [one])

    settle(world)
    assert [other] == [row["id"] for row in world.items(base["id"])]
    done = world.ask("SELECT count(*) FROM knowledge_job WHERE type = 'knowledge.index-documents' AND status = 'completed'")
    assert 3 == done[0][0]


def test_reindex_waits_for_a_delete_below_it(world):
    """The delete wins, and then the reindex is done, not forgotten."""
    base = shelf(world, PAID, (0, 0), (0, 1))
    world.add(base, [DirectoryInput(path=world.source / "shelf")], 0, None)
    world.come_to_rest(seconds=70)
    root, first, _ = [row["id"] for row in world.items(base["id"])]
    world.reindex(base, [root])
    (reindex,) = world.broker.messages
    world.write_source(0, 1, shared=3)
    (world.source / "shelf" / "a.txt").unlink()
    world.delete_items(base, [first])

    world.deliver(reindex)
    settle(world)

    world.ledger.look()
    stored = world.files.path(base["id"], "shelf/b.md").read_text()
    assert (world.source / "shelf" / "b.md").read_text() == stored


@pytest.mark.parametrize("where", ["db.read", "db.commit", "lock"])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_run_that_ends_while_somebody_looks_at_its_owner_stays_ended(world, where, step):
    """Who was told that it is taken read it again when it had ended, and closed it once more, as lost."""
    base = shelf(world, PAID)
    world.add(base, [NoteInput(content=world.text(1))], 0, None)
    world.passes(5)
    world.deliver(world.broker.messages.pop(0))
    world.delete_items(base, [row["id"] for row in world.items(base["id"])])
    delete = world.broker.messages.pop(0)
    world.deliver(delete, Fate(Kind.HELD_UP, step, where))
    world.deliver(delete)
    world.passes(65)
    world.deliver(delete, Fate(Kind.HELD_UP, step, where))

    while world.held:
        world.let_go(0)
    settle(world)
