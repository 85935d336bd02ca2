"""The thin client without a fleet: what it sends, what it refuses, and how soon it notices that nobody is there."""

import inspect
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from redis.exceptions import RedisError

from knowledge import KnowledgeClient, client
from knowledge.errors import BrokerUnavailable, CommandTimeout, FleetBusy, InvalidInput, KnowledgeError, Unavailable, all_errors
from knowledge.model import wire
from knowledge.model.inputs import BaseInput, BasePatch, FileInput, ItemInput, NoteInput
from knowledge.model.results import AddReceipt, DeleteReceipt, ReindexReceipt, StatusCounts
from knowledge.model.status import ItemStatus
from knowledge.service import KnowledgeService

NOWHERE = "redis://:hunter2@127.0.0.1:1/0"


def public(kind: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(method) for name, method in vars(kind).items() if not name.startswith("_") and callable(method)
    }


@pytest.mark.parametrize("operation", sorted(wire.OPERATIONS))
def test_operation_is_called_as_the_service_is(operation):
    """Whoever knows the service knows the client: same names, same parameters, same results."""
    ours, theirs = public(KnowledgeClient)[operation], public(KnowledgeService)[operation]

    assert list(theirs.parameters) == list(ours.parameters)
    assert theirs.return_annotation == ours.return_annotation
    for name, parameter in theirs.parameters.items():
        assert parameter.kind == ours.parameters[name].kind
        assert parameter.default in (ours.parameters[name].default, inspect.Parameter.empty)


def test_every_operation_of_the_service_travels_or_is_known_not_to():
    """A new method has to be decided on: it travels, or it stands here."""
    local = {"list_bases", "spend_total", "broker_answers", "close", "directory_at", "changes_in"}

    assert set(public(KnowledgeService)) - local == wire.OPERATIONS
    assert set(public(KnowledgeClient)) - {"close", "wait"} == wire.OPERATIONS
    assert wire.MAY_WAIT <= wire.OPERATIONS


@pytest.mark.parametrize("kind", all_errors().values(), ids=lambda kind: kind.code)
def test_error_arrives_as_what_it_was(kind):
    """Class, code, message, status and details survive the way."""
    error = kind("It broke: déjà vu.", item_ids=["a", "b"], bytes=3)

    arrived = wire.load_error(json.loads(json.dumps(wire.dump_error(error))))

    assert (type(error), str(error), error.details) == (type(arrived), str(arrived), arrived.details)


def test_error_of_a_newer_fleet_is_an_error_still():
    """A code that this client does not know becomes `KnowledgeError` with message and details."""
    arrived = wire.load_error({"code": "from_the_future", "message": "No.", "details": {"x": 1}})

    assert (KnowledgeError, "No.", {"x": 1}) == (type(arrived), str(arrived), arrived.details)


def test_details_of_any_kind_can_be_sent():
    """An error is never lost because of what it carries."""
    told = wire.dump_error(InvalidInput(path=Path("/a"), kinds={1}, what=object()))

    assert "/a" == json.loads(json.dumps(told))["details"]["path"]


def test_patch_says_what_to_clear_and_what_to_leave():
    """None clears, what is not given is left: the difference survives the way."""
    patch = wire.load(json.loads(json.dumps(wire.dump(BasePatch(group_id=None, name="n"), BasePatch))), BasePatch)

    assert {"group_id": None, "name": "n"} == patch.changes()


@pytest.mark.parametrize("url", ["amqp://localhost", "localhost:6379", "", "redis://h:port/0"])
def test_address_that_is_none_is_refused_at_once(url):
    """A typo is an error of its own, not a timeout later."""
    with pytest.raises(InvalidInput):
        KnowledgeClient(url)


def test_documents_do_not_travel():
    """A note above 256 KiB is refused before anything is sent, and the error says what to do; the bound counts bytes."""
    speaker = KnowledgeClient(NOWHERE)

    with pytest.raises(InvalidInput, match="as a file") as refused:
        speaker.add_items("b", [NoteInput(content="灯" * 100_000)])
    assert wire.MAX_COMMAND_BYTES == refused.value.details["most"]
    with pytest.raises(BrokerUnavailable):  # small enough: it is tried
        speaker.add_items("b", [NoteInput(content="a" * 200_000)])


@pytest.mark.parametrize("text", ["caf\udce9", "\ud800"])
def test_what_is_no_text_is_refused(text):
    """Half a character is the caller's mistake and said so."""
    with pytest.raises((InvalidInput, ValueError)):
        KnowledgeClient(NOWHERE).add_items("b", [FileInput(path=Path(f"/{text}")), NoteInput(content=text)])


def test_broker_that_is_down_is_noticed_at_once():
    """A refused connection is `BrokerUnavailable` within a fraction of the timeout, and its words hold no password."""
    began = time.monotonic()

    with pytest.raises(BrokerUnavailable) as gone:
        KnowledgeClient(NOWHERE, timeout_seconds=600).workers()
    assert time.monotonic() - began < 10
    assert "hunter2" not in str(gone.value.to_wire())


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Takes connections and never says a word: a broker that hangs."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(50)
        yield listening.getsockname()[1]


def test_broker_that_hangs_is_noticed_long_before_the_timeout(silent_port):
    """A broker that takes connections and does not answer is as good as down."""
    began = time.monotonic()

    with pytest.raises(BrokerUnavailable):
        KnowledgeClient(f"redis://127.0.0.1:{silent_port}/0", timeout_seconds=600).workers()
    assert time.monotonic() - began < 60


def test_variables_of_another_celery_application_change_nothing(silent_port):
    """An environment that has a Celery of its own does not lead the client to that broker, nor to its result store."""
    code = f"""
import celery, knowledge
theirs = celery.Celery("theirs")
speaker = knowledge.KnowledgeClient({NOWHERE!r})
assert celery.current_app._get_current_object() is theirs
try:
    speaker.workers()
except knowledge.KnowledgeError as error:
    print(error)
"""
    url = f"redis://127.0.0.1:{silent_port}/0"
    environ = {"CELERY_BROKER_URL": url, "CELERY_BROKER_WRITE_URL": url, "CELERY_RESULT_BACKEND": url}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environ}, capture_output=True, text=True, check=True, timeout=250
    )

    assert "127.0.0.1:1" in done.stdout


class Scripted(KnowledgeClient):
    """Answers come from a list: values, or errors to raise."""

    def __init__(self, *answers: object, timeout_seconds: float = 5.0) -> None:
        super().__init__(NOWHERE, timeout_seconds=timeout_seconds)
        self.answers = list(answers)
        self.asked: list[str] = []

    def _ask(self, operation, given, deadline):
        self.asked.append(operation)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, FleetBusy):
            return {"error": wire.dump_error(answer)}
        if isinstance(answer, Exception):
            raise answer
        return {"ok": answer}


def test_full_fleet_is_asked_again():
    """A refusal before anything was done is no concern of the caller."""
    assert [] == Scripted(FleetBusy(), FleetBusy(), []).workers()


def test_fleet_that_stays_full_is_told():
    """Asking again ends with the timeout, and the error says what it was."""
    with pytest.raises(FleetBusy):
        Scripted(FleetBusy(), timeout_seconds=0.5).workers()


@pytest.fixture
def no_rest(monkeypatch):
    monkeypatch.setattr(client.time, "sleep", lambda seconds: None)


@pytest.mark.parametrize("error", [RedisError, OSError])
def test_answer_in_hand_is_told_though_the_broker_falls_silent(monkeypatch, error):
    """What was done is done; that the broker cannot be told to forget the answer is no concern of the caller."""

    def silent(task_id):
        raise error

    speaker = KnowledgeClient(NOWHERE)
    found = {"status": "SUCCESS", "result": {"ok": []}}
    monkeypatch.setattr(speaker, "_send", lambda *_: "task")
    monkeypatch.setattr(speaker, "_answers", SimpleNamespace(get_task_meta=lambda *_, **__: found, forget=silent))

    assert [] == speaker.workers()


def counts(status: str, number: int = 1) -> dict[str, object]:
    return wire.dump(StatusCounts({ItemStatus(status): number}, {}), StatusCounts)


def test_waiting_outlives_a_fleet_that_is_away_for_a_moment(no_rest):
    """Work goes on while nobody answers; so does the waiting."""
    speaker = Scripted(BrokerUnavailable("gone"), counts("reading"), CommandTimeout(), counts("completed", 2), [])
    told = []

    waited = speaker.wait(AddReceipt("b", [], published=True), told.append)

    assert {"completed": 2} == waited.counts.leaves
    assert [{"reading": 1}, {"completed": 2}] == [seen.leaves for seen in told]


def test_waiting_for_a_fleet_that_stays_away_ends():
    """Without any answer for as long as a command may take, the last error is told, also where no timeout was given."""
    with pytest.raises(Unavailable):
        Scripted(BrokerUnavailable("gone"), timeout_seconds=0.3).wait(AddReceipt("b", [], published=True))


def test_waiting_ends_at_its_timeout():
    """The time over is `CommandTimeout`; the work goes on."""
    with pytest.raises(CommandTimeout, match="goes on"):
        Scripted(counts("reading")).wait(AddReceipt("b", [], published=True), timeout_seconds=0.1)


def test_waiting_tells_what_was_deleted_meanwhile():
    """An item that was accepted and is not there any more did not fail, and was not indexed either."""
    item = SimpleNamespace(id="i")
    nothing = wire.dump(StatusCounts({}, {}), StatusCounts)

    assert 1 == Scripted(nothing).wait(AddReceipt("b", [item], published=True)).gone
    assert 0 == Scripted(nothing).wait(DeleteReceipt("b", ["i"], published=True)).gone


def test_waiting_for_a_reindex_asks_for_its_job_first():
    """Items look settled until the job has their sources: the counts that decide are younger than the job's end."""
    speaker = Scripted(InvalidInput())
    with pytest.raises(InvalidInput):
        speaker.wait(ReindexReceipt("b", ["i"], "j", published=True))

    assert ["job"] == speaker.asked


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), 1e12, 10**400, "60", True, None])
def test_timeout_that_no_message_could_have_is_refused_at_once(seconds):
    """Not when the first command is sent, and not by an error of a library."""
    with pytest.raises(InvalidInput) as refusal:
        KnowledgeClient(NOWHERE, timeout_seconds=seconds)

    assert "timeout_seconds" == refusal.value.details["field"]


@pytest.mark.parametrize("shard", ["", "Main", "a.b", "*", "#", "-a", "a b", "a\n", "a" * 64, None, 7])
def test_shard_that_no_queue_could_have_is_refused_at_once(shard):
    """A dot or a wildcard would reach other queues."""
    with pytest.raises(InvalidInput) as refusal:
        KnowledgeClient(NOWHERE, shard=shard)

    assert "shard" == refusal.value.details["field"]


@pytest.mark.parametrize(
    ("value", "kind", "place"),
    [
        (7, str, "query"),
        ("many", int, "query"),
        ([{"type": "note"}], list[ItemInput], "query.0.note.content"),
        ({"name": " "}, BaseInput, "query.name"),
        ({"name": "b", "chunk_size": 1, "chunk_overlap": 1}, BaseInput, "query"),
    ],
)
def test_value_of_a_wrong_type_is_named(value, kind, place):
    """Where it is, in message and details, and in no words of a library."""
    with pytest.raises(InvalidInput) as refusal:
        wire.load(value, kind, "query")

    assert place == refusal.value.details["field"]
    assert str(refusal.value).startswith(f"{place}: ")
    assert "Value error" not in str(refusal.value)
