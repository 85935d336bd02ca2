"""`knowledge item watch`: the real command beside a real fleet, while somebody works in the folder."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from knowledge.interfaces.cli import ExitCode
from knowledge.model.inputs import BaseInput, DirectoryInput
from knowledge.model.jobs import JobType
from knowledge.model.status import ItemStatus, ItemType
from tests.fleet import ROOT, Fleet
from tests.waiting import PATIENCE_SECONDS, eventually

COMMAND = [sys.executable, "-m", "knowledge.interfaces.cli"]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Everything running."""
    fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    try:
        fleet.start()
        yield fleet
    finally:
        fleet.stop()


@pytest.fixture
def base(fleet: Fleet, request: pytest.FixtureRequest) -> str:
    return fleet.service.create_base(BaseInput(name=request.node.name)).id


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    (docs / "inner").mkdir(parents=True)
    (docs / "a.md").write_text("The lightfleet stands.")
    (docs / "inner" / "b.md").write_text("The fog signal sounds.")
    return docs


@contextmanager
def watching(fleet: Fleet, base: str, docs: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The command, until it has said that it watches; ended by Ctrl-C if it has not ended itself."""
    with begun(fleet, base, docs, "--quiet", "0.3", *options) as process:
        try:
            if "--json" not in options:
                assert process.stderr is not None
                assert "watching" in process.stderr.readline()
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(PATIENCE_SECONDS)
                finally:
                    process.kill()


def begun(fleet: Fleet, base: str, docs: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "item", "watch", base, str(docs), *options],
        cwd=ROOT, env=fleet.environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def put(path: Path, text: str) -> None:
    """Write a file whole: nobody who follows its folder, and is counted, finds it empty before."""
    written = path.parent.with_name("written")
    written.write_text(text)
    written.replace(path)


def files(fleet: Fleet, base: str) -> dict[str | None, ItemStatus]:
    """Concept id and status of each file."""
    page = fleet.service.list_items(base, type=ItemType.FILE, limit=100)
    return {item.concept_id: item.status for item in page.items}


def becomes(fleet: Fleet, base: str, *names: str) -> None:
    wanted = {f"docs/{name}": ItemStatus.COMPLETED for name in names}
    eventually(lambda: wanted == files(fleet, base), f"the base holds {names}")


def text_of(fleet: Fleet, base: str, name: str) -> str:
    items = fleet.service.list_items(base, type=ItemType.FILE, limit=100).items
    return fleet.service.preview(next(item.id for item in items if item.concept_id == f"docs/{name}")).text


def test_a_folder_is_followed_until_ctrl_c(fleet, base, docs):
    """New, changed, moved and removed files, one after the other; the end is no error."""
    with watching(fleet, base, docs) as process:
        becomes(fleet, base, "a.md", "inner/b.md")
        (docs / "new.md").write_text("new")
        becomes(fleet, base, "a.md", "inner/b.md", "new.md")
        (docs / "a.md").write_text("The lightfleet fell.")
        eventually(lambda: "The lightfleet fell." == text_of(fleet, base, "a.md"), "a.md is indexed again")
        (docs / "inner").rename(docs / "moved")
        becomes(fleet, base, "a.md", "moved/b.md", "new.md")
        (docs / "new.md").unlink()
        becomes(fleet, base, "a.md", "moved/b.md")
        process.send_signal(signal.SIGINT)

        assert ExitCode.OK == process.wait(PATIENCE_SECONDS)
        assert process.stderr is not None
        told = process.stderr.read()
        assert "stopped watching" in told
        assert "Traceback" not in told


def test_many_changes_are_few_reindexes(fleet, base, docs):
    """They are gathered; and what did not change is not indexed again."""
    names = [f"{number:03}.md" for number in range(60)]
    with watching(fleet, base, docs):
        becomes(fleet, base, "a.md", "inner/b.md")
        for name in names:
            put(docs / name, name)
        becomes(fleet, base, "a.md", "inner/b.md", *names)
        put(docs / "a.md", "The lighthouse fell.")
        eventually(lambda: "The lighthouse fell." == text_of(fleet, base, "a.md"), "a.md is indexed again")
        jobs = fleet.service.list_jobs(base_id=base, limit=500).jobs

    indexed = [job for job in jobs if job.type is JobType.INDEX_DOCUMENTS]
    assert len(names) + 3 == len(indexed), "each file once, the changed one twice"
    assert len([job for job in jobs if job.type is JobType.REINDEX_SUBTREE]) < 20


def test_a_folder_that_goes_away_removes_nothing(fleet, base, docs):
    """It is waited for; when it is back it is followed again."""
    away = docs.with_name("away")
    with watching(fleet, base, docs) as process:
        becomes(fleet, base, "a.md", "inner/b.md")
        docs.rename(away)
        assert process.stderr is not None
        said = process.stderr.readline()
        assert {"docs/a.md", "docs/inner/b.md"} == files(fleet, base).keys()
        (away / "new.md").write_text("new")
        away.rename(docs)
        becomes(fleet, base, "a.md", "inner/b.md", "new.md")
        (docs / "more.md").write_text("more")
        becomes(fleet, base, "a.md", "inner/b.md", "new.md", "more.md")

    assert "nothing is removed" in said


def test_a_directory_that_is_there_is_used_until_it_is_deleted(fleet, base, docs):
    """No second item; what happened before is caught up on. Without the directory there is nothing to do."""
    added = fleet.service.add_items(base, [DirectoryInput(path=docs)]).items[0].id
    becomes(fleet, base, "a.md", "inner/b.md")
    (docs / "a.md").unlink()
    with watching(fleet, base, docs) as process:
        becomes(fleet, base, "inner/b.md")
        assert [added] == [item.id for item in fleet.service.list_items(base, roots_only=True).items]
        fleet.service.delete_items(base, [added])

        assert ExitCode.FAILED == process.wait(PATIENCE_SECONDS)
        assert process.stderr is not None
        assert "item_not_found" in process.stderr.read()


def test_programs_read_one_object_a_line(fleet, base, docs):
    """Whenever the directory is in step again; patterns are kept, and others are refused."""
    with watching(fleet, base, docs, "--json", "--exclude", "inner/") as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())

    assert ("completed", {"completed": 1}) == (told["status"], told["counts"]["leaves"])
    assert {"docs/a.md": ItemStatus.COMPLETED} == files(fleet, base)
    _, refusal = begun(fleet, base, docs, "--exclude", "*.txt").communicate(timeout=250)
    assert "keeps its patterns" in refusal


@pytest.mark.parametrize(("name", "code"), [("no", "path_not_found"), ("docs/a.md", "invalid_input")])
def test_what_is_no_folder_is_refused(fleet, base, docs, name, code):
    """At once, with the reason."""
    process = begun(fleet, base, docs.parent / name, "--json")
    _, refusal = process.communicate(timeout=250)

    assert (ExitCode.FAILED, code) == (process.returncode, json.loads(refusal)["code"])
