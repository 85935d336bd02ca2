"""Cases from the world that belong to the lifecycle: what systems of this kind have done to their users."""

import apsw
import pytest
from sqlalchemy import text as sql

from knowledge.catalog import bases, jobs
from knowledge.errors import EmbedderRefused
from knowledge.model.inputs import NoteInput
from knowledge.model.jobs import JobStatus
from knowledge.model.status import ItemStatus
from knowledge.service import KnowledgeService
from tests.regression.faults import hooked

SAME = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [lighthouse.yaml]\n"


@pytest.fixture
def twins(tmp_path):
    """Two files of one content in two folders."""
    for name in "ab":
        (tmp_path / "tree" / name).mkdir(parents=True)
        (tmp_path / "tree" / name / "kustomization.txt").write_text(SAME)
    return tmp_path / "tree"


def _counts(house, base):
    counts = house.rt.index(base).counts()
    return counts.materials, counts.units, counts.vectors, counts.contents


def test_case_045_equal_content_is_no_duplicate(house, base, twins):
    """Two paths are two documents; deleting one leaves the other, also in the index."""
    (root,) = house.add(base, twins)
    house.work()
    leaves = [item for item in house.items(base) if item.type == "file"]

    assert [ItemStatus.COMPLETED] * 2 == [item.status for item in leaves]
    house.service.delete_items(base.id, [leaves[0].id])
    house.work()
    assert [leaves[1].id] == [hit.item_id for hit in house.service.search(base.id, "kustomization").hits]
    assert house.exists(root)


def test_case_057_a_deleted_directory_leaves_nothing_and_comes_again(house, base, twins):
    """Neither units, nor vectors, nor bytes; the same content is taken anew."""
    for _ in range(2):
        (root,) = house.add(base, twins)
        house.work()

        assert 2 == len(house.service.search(base.id, "kustomization").hits)
        house.service.delete_items(base.id, [root.id])
        house.work()
        assert ([], (0, 0, 0, 0), []) == (house.raw(base), _counts(house, base), house.items(base))
        assert [] == house.service.search(base.id, "kustomization").hits


def test_case_107_deleted_text_does_not_answer(house, base):
    """Asked for by its own words, by words and by meaning, from the moment the delete is accepted."""
    gone, kept = house.notes(base, "the secret of the lighthouse", "the harbour at noon")
    house.work()
    house.service.delete_items(base.id, [gone.id])
    before = [hit.item_id for hit in house.service.search(base.id, "the secret of the lighthouse").hits]
    house.work()

    assert gone.id not in before
    assert [kept.id] == [hit.item_id for hit in house.service.search(base.id, "the secret of the lighthouse").hits]
    assert (1, 1, 1, 1) == _counts(house, base)
    assert [kept.id] == list(house.rt.index(base).item_ids())


@pytest.mark.parametrize("way", ["deleted", "cancelled", "deleted with its base"])
@pytest.mark.parametrize("moment", ["queued", "reading", "embedding"])
def test_case_109_the_job_of_an_unwanted_document_stops_and_pays_no_more(paid_house, paid_server, moment, way):
    """Wherever it was; nothing jams, and the next document goes through."""
    house, base = paid_house, paid_house.base("paid", chunk_size=10, chunk_overlap=0)
    words = " ".join(f"Sentence number {number} tells of the lighthouse." for number in range(40))
    (note,) = house.add(base, NoteInput(content=words))
    job, done = house.job_of(note), []

    def stop(*_, **__):
        if not done:
            done.append(way)
            with house.db.write() as tx:  # what each of these operations commits first, and nothing that waits for the job
                if way == "deleted with its base":
                    bases.mark_deleting(tx, base.id)
                    jobs.cancel_base(tx, base.id)
                elif way == "cancelled":
                    jobs.cancel_one(tx, jobs.get(tx, job.id))
            if way == "deleted":
                KnowledgeService(plain).delete_items(base.id, [note.id])

    plain = house.rt
    if moment == "queued":
        stop()
    elif moment == "reading":
        with hooked(house, files={"local": stop}):
            house.deliver(house.sender.waiting.popleft())
    else:
        with hooked(house, cache={"put": stop}):
            house.deliver(house.sender.waiting.popleft())
    sent = paid_server.stats()["requests"]
    house.work(hurry=True)
    if way == "deleted with its base":
        house.service.delete_base(base.id)
        base = house.base("paid")
    (after,) = house.notes(base, "after")
    house.work(hurry=True)

    assert sent <= {"queued": 0, "reading": 1, "embedding": 2}[moment]
    assert sent + 1 == paid_server.stats()["requests"]
    assert (way == "cancelled") == house.exists(note)
    assert ItemStatus.COMPLETED is house.item(after).status
    assert [] == house.jobs(JobStatus.PENDING, JobStatus.RUNNING)


def test_case_113_what_failed_can_be_deleted_and_added_again(house, base, write):
    """Under its own name."""
    path = write("x.json", "{")
    (bad,) = house.add(base, path)
    house.work(hurry=True)
    assert ItemStatus.FAILED is house.item(bad).status
    house.service.delete_items(base.id, [bad.id])
    house.work()
    path.write_text('{"tells": "of the lighthouse"}')
    (good,) = house.add(base, path)
    house.work()

    assert ("x.json", ItemStatus.COMPLETED) == (good.relative_path, house.item(good).status)


def test_case_115_no_byte_of_a_deleted_file_is_on_the_disk(house, base, docs, write):
    """Neither below raw/, nor staged, nor in the index file."""
    added = house.add(base, docs, write("x.md", "Zanzibar nightingale"), NoteInput(content="Zanzibar nightingale note"))
    house.work()
    house.service.delete_items(base.id, [item.id for item in added])
    house.work()
    house.rt.indexes.close()

    files = [path for path in (house.root / "bases" / base.id).rglob("*") if path.is_file()]
    assert [".knowledge"] == sorted({path.parent.name for path in files})
    assert 0 == house.rt.index(base).counts().units


def test_case_117_a_failure_keeps_nothing_that_is_in_the_way(house, base, docs):
    """Failed, added again, synchronised three times: no false duplicate, and no round without an end."""
    (docs / "bad.json").write_text("{")
    (root,) = house.add(base, docs)
    house.work(hurry=True)
    again = house.add(base, docs / "a.md")
    for _ in range(3):
        house.service.reindex_items(base.id, [root.id])
        house.work(hurry=True)

    bad = [item for item in house.items(base) if item.title == "bad.json"]
    assert [ItemStatus.FAILED] == [item.status for item in bad]
    assert 5 == len([item for item in house.items(base) if item.type == "file"])
    assert ItemStatus.COMPLETED is house.item(again[0]).status


@pytest.mark.parametrize("goes", ["first", "second"])
@pytest.mark.parametrize("shared", ["one file twice", "a file and its folder", "two notes of one text", "a restored copy"])
def test_case_119_a_delete_takes_nothing_that_another_item_has(house, base, docs, shared, goes):
    """Bytes, text, passages and vectors that two items have in common stay for the other, whichever goes first."""
    text = "The lighthouse stands on the northern rock."
    match shared:
        case "one file twice":
            first, second = house.add(base, docs / "a.md", docs / "a.md")
        case "a file and its folder":
            first, second = house.add(base, docs / "a.md", docs)
        case "two notes of one text":
            first, second = house.notes(base, text, text)
        case _:
            (first,) = house.add(base, docs / "a.md")
    house.work()
    if shared == "a restored copy":
        (second,) = house.service.restore_base(base.id, "copy", "hashing").items
        house.work()
    gone, kept = (first, second) if goes == "first" else (second, first)
    house.service.delete_items(gone.base_id, [gone.id])
    house.work()

    home = house.service.base(kept.base_id)
    (hit,) = [hit for hit in house.service.search(home.id, "northern rock").hits if hit.text == text]
    assert text == house.service.preview(hit.item_id).text
    assert house.service.chunks(home.id, hit.item_id)
    assert house.rt.indexes.is_sound(home.id, home.dimensions)
    assert kept.type == "note" or text == house.service.file_path(hit.item_id).read_text()
    house.service.reindex_items(home.id, [kept.id])
    house.work(hurry=True)
    assert ItemStatus.COMPLETED is house.item(kept).status


def test_case_121_deleting_half_leaves_half(house, base):
    """In every table: words, vectors, units, texts."""
    notes = house.notes(base, *(f"note number {number} of the lighthouse keeper" for number in range(40)))
    house.work()
    house.service.delete_items(base.id, [note.id for note in notes[::2]])
    house.work()

    assert (20, 20, 20, 20) == _counts(house, base)
    assert 20 == len(house.rt.index(base).lexical("lighthouse", 100))
    assert [] == house.rt.index(base).lexical("0", 100)
    with house.db.read() as tx:
        assert 20 == tx.scalar(sql("SELECT count(*) FROM knowledge_path"))
    house.rt.indexes.close()
    index = apsw.Connection(str(house.root / "bases" / base.id / ".knowledge" / "index.sqlite"))
    for table in ("content", "material", "unit", "body", "lexical_docsize", "vector"):
        assert [(20,)] == index.execute(f"SELECT count(*) FROM {table}").fetchall()
    assert [(20,)] == index.execute("SELECT slots - dead_slots FROM state").fetchall()


def test_case_123_what_did_not_change_is_not_paid_again(paid_house, paid_server, write, docs):
    """Files touched, notes written again with a new time, a directory synchronised: no request."""
    house, base = paid_house, paid_house.base("paid")
    added = house.add(base, docs, NoteInput(content="a note on the lighthouse"), write("x.md", "a file on the lighthouse"))
    house.work()
    before = paid_server.stats()["requests"]
    for path in (docs / "a.md", docs.parent / "x.md"):
        path.touch()
    house.service.reindex_items(base.id, [item.id for item in added])
    house.work(hurry=True)

    copy = house.service.restore_base(base.id, "copy", "paid").base  # every snapshot has a new time in its head
    house.work(hurry=True)

    assert before == paid_server.stats()["requests"]
    assert {ItemStatus.COMPLETED} == {item.status for item in (*house.items(base), *house.items(copy))}
    assert (base.chunk_strategy, base.chunk_separator) == (copy.chunk_strategy, copy.chunk_separator)


def test_case_137_a_late_failure_keeps_what_was_paid(paid_house, paid_server):
    """The last batch is refused: the next attempt pays for that one alone."""
    house, base = paid_house, paid_house.base("paid", chunk_size=10, chunk_overlap=0)
    words = " ".join(f"Sentence number {number} tells of the lighthouse." for number in range(40))
    (note,) = house.add(base, NoteInput(content=words))
    calls = []

    def refuse_last(*_, **__):
        calls.append(1)
        if len(calls) == 4:
            raise EmbedderRefused

    with hooked(house, cache={"put": refuse_last}):
        house.work()
    assert ItemStatus.FAILED is house.item(note).status
    house.service.reindex_items(base.id, [note.id])
    house.work(hurry=True)

    texts = paid_server.stats()["texts"]
    assert ItemStatus.COMPLETED is house.item(note).status
    assert 2 >= sum(len(one["answered"]) > 1 for one in texts.values())


def test_case_165_what_is_deleted_at_the_source_is_not_found(house, root, docs):
    """After the directory was looked at again."""
    (docs / "inner" / "b.md").unlink()
    house.service.reindex_items(root.base_id, [root.id])
    house.work()

    found = [hit.text for hit in house.service.search(root.base_id, "fog signal ninety seconds").hits]
    assert "The fog signal sounds every ninety seconds." not in found
    assert 2 == house.rt.index(house.service.base(root.base_id)).counts().materials
