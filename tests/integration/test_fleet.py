"""The product's own processes on a real broker: one path for each source, one delivery for each message, ids only in public."""

import base64
import json
import sys
import urllib.request
from contextlib import suppress

import docx
import pytest

from config import broker, flower
from deploy.run.supervisor import environment
from knowledge import KnowledgeClient, topology
from knowledge.errors import BrokerUnavailable
from knowledge.model.ids import new_base_id
from knowledge.model.inputs import DirectoryInput, FileInput, NoteInput
from knowledge.model.jobs import JobStatus, Track
from knowledge.model.status import ItemStatus, ItemType
from tests.fleet import Fleet
from tests.waiting import eventually

SECRET = "xylophone"  #: a word of every document, which nobody may see in messages, events or logs


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    # a message that waits for long on a busy machine was not lost: nothing is published twice here
    fleet = Fleet(tmp_path_factory.mktemp("fleet") / "root", settings={"KNOWLEDGE_REPUBLISH_SECONDS": "600"})
    try:
        fleet.start()
        fleet.launch("commands")
        fleet.wait_until_ready("commands")
        yield fleet
    finally:
        fleet.stop()


@pytest.fixture
def documents(tmp_path):
    """One file of each kind that has a reader, in a folder with an inner one."""
    folder = tmp_path / "papers"
    (folder / "inner").mkdir(parents=True)
    (folder / "plain.txt").write_text(f"plain {SECRET}")
    (folder / "page.html").write_text(f"<html><body><h1>Page</h1><p>page {SECRET}</p></body></html>")
    (folder / "table.csv").write_text(f"name,what\ntable,{SECRET}\n")
    (folder / "inner" / "list.json").write_text(json.dumps([{"word": f"list {SECRET}"}]))
    (folder / "inner" / "code.py").write_text(f'"""code {SECRET}"""\n')
    letter = docx.Document()
    letter.add_paragraph(f"letter {SECRET}")
    letter.save(str(folder / "inner" / "letter.docx"))
    return folder


@pytest.mark.parametrize("paid", [True, False], ids=["hybrid", "lexical"])
def test_every_source_is_indexed_found_and_deleted(fleet, documents, paid):
    """Note, file, directory with every kind of file: complete, found by a word, and gone without a trace."""
    base = fleet.new_base(paid=paid)
    sources = [NoteInput(content=f"note {SECRET}"), FileInput(path=documents / "plain.txt"), DirectoryInput(path=documents)]
    roots = fleet.add(base, *sources)
    found = [fleet.settled(root) for root in roots]
    leaves = [item for item in fleet.below(base, roots[2]) if item.type is ItemType.FILE]

    assert [ItemStatus.COMPLETED] * 3 == [item.status for item in found], [item.error for item in found]
    assert 6 == len(leaves)
    assert {*roots[:2], *(leaf.id for leaf in leaves)} == fleet.search(base, SECRET)
    fleet.delete(base, *roots)
    fleet.gone(*roots, *(leaf.id for leaf in leaves))
    counts = fleet.service.rt.index(base).counts()
    assert ([], 0, 0) == (list(fleet.service.rt.files.listing(base.id)), counts.materials, counts.vectors)


def test_a_base_is_deleted_while_its_workers_are_busy(fleet):
    """With work waiting and running; the workers go on with others."""
    base, other = fleet.new_base(), fleet.new_base()
    fleet.add(base, *(NoteInput(content=f"note {number} {SECRET}") for number in range(30)))
    fleet.service.delete_base(base.id)
    after = fleet.add_note(other, f"after {SECRET}")

    assert ItemStatus.COMPLETED is fleet.settled(after).status
    assert base.id not in fleet.service.rt.files.base_ids()
    eventually(lambda: not fleet.jobs(JobStatus.RUNNING, base=base), "no job of the base runs")


def test_one_publish_is_one_message_in_one_queue(fleet):
    """Published for real, to a shard that nobody serves: each key has exactly one copy, in the queue that its track names."""
    base_id = new_base_id()
    wanted = {
        topology.routing_key("spare", base_id, Track.INDEX): "knowledge.spare",
        topology.routing_key("spare", base_id, Track.CONTROL): "knowledge.spare.control",
        "command.spare": "knowledge.spare.commands",
    }
    queues = topology.queues("spare") + topology.queues("main")
    with fleet.app.producer_or_acquire() as producer:
        for key in wanted:
            producer.publish({"key": key}, exchange=topology.EXCHANGE, routing_key=key, declare=queues)
    with fleet.redis() as client:
        found = {
            queue.name: [
                json.loads(base64.b64decode(json.loads(one)["body"]))["key"] for one in client.lrange(queue.name, 0, -1)
            ]
            for queue in topology.queues("spare")[:3]
        }
        client.delete(*found)

    assert {queue: [key] for key, queue in wanted.items()} == found


def test_no_key_of_one_shard_reaches_another(fleet):
    """Shards whose names begin alike stay apart."""
    with fleet.app.connection_for_write() as connection, connection.channel() as channel:
        for shard in ("s1", "s1-b"):
            for queue in topology.queues(shard):
                queue(channel).declare()
        key = topology.routing_key("s1", new_base_id(), Track.INDEX)
        reached = channel.typeof("knowledge").lookup(channel.get_table("knowledge"), "knowledge", key, None)

    assert ["knowledge.s1"] == list(reached)


def test_one_publish_is_one_delivery(fleet):
    """Sixty notes, sixty runs: no message is doubled on the way, and none is lost."""
    base = fleet.new_base(paid=False)
    before = fleet.log("index").count("message dropped")
    items = fleet.add(base, *(NoteInput(content=f"note {number} {SECRET}") for number in range(60)))
    for item in items:
        fleet.settled(item)

    assert {(JobStatus.COMPLETED, 1, 0, 0)} >= {
        (job.status, job.publishes, job.attempt, job.losses) for job in fleet.jobs(base=base) if job.publishes
    }
    assert before == fleet.log("index").count("message dropped")
    eventually(lambda: 0 == fleet.waiting_messages("knowledge.main"), "the queue is empty")


def test_deletes_never_wait_behind_index_work(fleet):
    """The control worker takes no index work, the index worker no control work, and what clients ask has its own worker."""
    workers = {worker.name.partition("@")[0]: set(worker.queues) for worker in fleet.service.workers()}

    assert {"knowledge.main"} == workers["index"]
    assert {"knowledge.main.control", "knowledge.upkeep"} == workers["control"]
    assert {"knowledge.main.commands"} == workers["commands"]


def test_messages_hold_ids_only(fleet):
    """What lies in the broker names the job and nothing of the document."""
    base = fleet.new_base()
    gated = fleet.new_base()
    fleet.embedder.behave({"behaviour": "gate"})
    try:
        fleet.add(gated, *(NoteInput(content=f"gate {number} {SECRET}") for number in range(2)))
        items = fleet.add(base, *(NoteInput(content=f"waits {number} {SECRET}") for number in range(4)))
        waiting = eventually(lambda: fleet.waiting_messages("knowledge.main"), "messages wait")
        with fleet.redis() as client:
            messages = [json.loads(message) for message in client.lrange("knowledge.main", 0, -1)]
    finally:
        fleet.embedder.release()
        fleet.embedder.behave()
    job_ids = {fleet.job_of(item).id for item in items} | {job.id for job in fleet.jobs(base=gated)}
    bodies = [json.loads(base64.b64decode(message["body"])) for message in messages]

    assert waiting
    assert all([[job_id], {}] == body[:2] and job_id in job_ids for body in bodies for job_id in body[0])
    assert SECRET not in json.dumps(messages)
    for item in items:
        fleet.settled(item)


def test_nothing_said_to_the_fleet_is_left_once_it_is_deleted(fleet):
    """After the hourly round neither text, title nor question is in any file, as it was or as messages encode it."""
    words = [f"{word}{SECRET}" for word in ("text", "title", "question")]
    text, title, question = words
    base = fleet.new_base(paid=False)
    with KnowledgeClient(broker.endpoint(fleet.settings)) as client:
        (item,) = client.add_items(base.id, [NoteInput(content=text * 3, title=title)]).items
        fleet.settled(item.id)
        client.search(base.id, question)
        client.delete_items(base.id, [item.id])
    fleet.gone(item.id)
    said = held(fleet.settings.data_dir, words)
    fleet.app.send_task(topology.TIDY, ignore_result=True, exchange=topology.EXCHANGE, routing_key=topology.UPKEEP_KEY)

    assert {"appendonlydir"} <= {path.parent.name for path in said}
    eventually(lambda: not held(fleet.settings.data_dir, words), "all of it is gone")


def held(folder, words):
    """Files below that show one of these words, plain or in base64 at any offset."""
    forms = [word.encode() for word in words]
    for word in words:
        forms += [base64.b64encode(b"\0" * at + word.encode())[4 if at else 0 : -4] for at in range(3)]
    found = []
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file() and any(form in path.read_bytes() for form in forms):
                found.append(path)
    return found


def test_flower_shows_names_and_ids_only(fleet, documents):
    """An operator sees which job ran where; nobody sees paths, names or words of documents."""
    fleet._spawn("flower", [sys.executable, "-m", "config.flower"], environment(fleet.settings, fleet.environ))
    url = eventually(lambda: flower.address(fleet.settings), "Flower says where it is")
    user, secret = fleet.settings.flower_user, flower.password(fleet.settings)
    base = fleet.new_base()
    names = {"index", "control", "commands"}

    def seen():
        return {name.partition("@")[0] for name in _get(f"{url}/api/workers?refresh=1", user, secret) or ()}

    eventually(lambda: names <= seen(), "Flower sees the workers")
    (root,) = fleet.add(base, DirectoryInput(path=documents))
    fleet.settled(root)
    fleet.delete(base, root)
    fleet.gone(root)

    def shown():
        tasks = _get(f"{url}/api/tasks?limit=1000", user, secret) or {}
        names = {task["name"] for task in tasks.values()}
        wanted = {"knowledge.prepare-root", "knowledge.index-documents", "knowledge.delete-subtree"}
        return tasks if wanted <= names else None

    tasks = eventually(shown, "Flower shows the three jobs")
    jobs = [task for task in tasks.values() if task["name"] in {job.type.value for job in fleet.jobs()}]
    workers = _get(f"{url}/api/workers", user, secret)

    assert {f"('{task['uuid']}',)" for task in jobs} == {task["args"] for task in jobs}
    assert {"{}"} == {task["kwargs"] for task in jobs}
    assert SECRET not in json.dumps(tasks)
    assert "papers" not in json.dumps(tasks)
    assert names == {name.partition("@")[0] for name in workers}
    assert all(SECRET not in fleet.log(name) for name in ("index", "control", "beat"))


def test_a_broker_that_is_away_is_a_typed_error(fleet):
    """No exception of a library reaches the caller, at sending and at asking alike."""
    sender = fleet.service.rt.dispatch._sender
    base = fleet.new_base(paid=False)
    item = fleet.add_note(base, f"before {SECRET}")
    job = fleet.job_of(item)
    fleet.settled(item)
    fleet.kill_broker()
    try:
        with pytest.raises(BrokerUnavailable):
            sender.send(job)
        with pytest.raises(BrokerUnavailable):
            sender.queue_length(job)
        assert (False, None) == (sender.answers(), sender.broker_run_id())
        receipt = fleet.service.add_items(base.id, [NoteInput(content=f"accepted {SECRET}")])
        assert not receipt.published
    finally:
        fleet.start_broker()
    assert ItemStatus.COMPLETED is fleet.settled(receipt.items[0].id).status


def _get(url, user, password):
    user = base64.b64encode(f"{user}:{password}".encode()).decode()
    request = urllib.request.Request(url, headers={"Authorization": f"Basic {user}"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)
    except OSError:
        return None
