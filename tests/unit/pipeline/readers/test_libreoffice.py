"""Running LibreOffice: what a person without it is told, and that neither it nor a file can do harm."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from socketserver import BaseRequestHandler, TCPServer

import psutil
import pytest

from knowledge.errors import CancelRequested, CorruptSource, ReaderBudgetExceeded, UnsupportedSource
from knowledge.model.budget import Budget
from knowledge.pipeline.readers import libreoffice
from knowledge.pipeline.readers.doc import DocReader
from knowledge.pipeline.readers.ppt import PptReader
from knowledge.pipeline.readers.process import ReaderProcess
from knowledge.pipeline.readers.registry import ReaderRegistry
from tests.processes import is_over
from tests.unit.pipeline.readers.samples import FOLDER, sample
from tests.waiting import PATIENCE_SECONDS, eventually


def read(path, reader=None, budget=None):
    registry = ReaderRegistry([reader or DocReader()], budget)
    return registry.read(path, path.name, lambda: None)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where temporary folders are made, seen from the test alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Puts a program of our own in the place of LibreOffice."""

    def put(script):
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "soffice").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "soffice").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.defpath}")

    return put


@pytest.mark.parametrize(
    ("name", "reader", "package"), [("report.doc", DocReader(), "writer"), ("slides.ppt", PptReader(), "impress")]
)
def test_message_says_how_to_install_it(tmp_path, monkeypatch, name, reader, package):
    """Without LibreOffice such files are unsupported, and nobody has to search for the way out."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UnsupportedSource) as caught:
        read(FOLDER / name, reader)
    assert f"sudo apt-get install -y --no-install-recommends libreoffice-{package}-nogui" in str(caught.value)


def test_linked_picture_is_not_fetched(tmp_path):
    """A document cannot make this machine ask others, or itself, for anything."""
    asked = []

    class Server(TCPServer):
        def finish_request(self, request, client_address):
            asked.append(client_address)

    server = Server(("127.0.0.1", 0), BaseRequestHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        port = f"{server.server_address[1]:05}"
        data = (
            sample("linked.doc").replace("54321".encode("utf-16-le"), port.encode("utf-16-le")).replace(b"54321", port.encode())
        )
        (tmp_path / "linked.doc").write_bytes(data)
        text = read(tmp_path / "linked.doc").documents[0].text
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

    assert data != sample("linked.doc")
    assert "A picture from elsewhere:" in text
    assert [] == asked


def test_files_are_converted_at_the_same_time(temporary):
    """Each run has a profile of its own; nothing is left behind."""
    with ThreadPoolExecutor(3) as pool:
        texts = list(pool.map(lambda _: read(FOLDER / "report.doc").documents[0].text, range(3)))

    assert 1 == len(set(texts))
    assert [] == list(temporary.iterdir())


def test_converter_that_hangs_is_ended_with_all_it_started(program, temporary, monkeypatch, tmp_path):
    """The start script, what it starts, and the folder are gone."""
    monkeypatch.setattr(libreoffice, "SECONDS", 3.0)  # in which the script must have begun
    program(f"sleep 600 & echo $! >{tmp_path}/inner; echo $$ >{tmp_path}/outer; wait")

    with pytest.raises(ReaderBudgetExceeded) as caught:
        read(FOLDER / "report.doc")
    assert "seconds" == caught.value.details["figure"]
    assert [] == list(temporary.iterdir())
    for name in ("inner", "outer"):
        pid = int((tmp_path / name).read_text())
        eventually(lambda pid=pid: is_over(pid), f"{name}, which was killed, is gone")


def test_converter_goes_with_the_process_that_reads(program, temporary, tmp_path):
    """A reader process that is killed cannot end what it started, nor remove what it wrote."""
    program(f"sleep 600 & echo $! >{tmp_path}/inner; echo $$ >{tmp_path}/outer; wait")
    process = ReaderProcess(Budget(seconds=120))

    def stop_when_it_runs():
        if (tmp_path / "outer").exists() and (tmp_path / "outer").read_text().strip():
            assert any(temporary.rglob("file.doc"))
            raise CancelRequested

    with pytest.raises(CancelRequested):
        process.read(FOLDER / "report.doc", "report.doc", lambda finding: None, stop_when_it_runs)
    process.close()

    for name in ("inner", "outer"):
        pid = int((tmp_path / name).read_text())
        eventually(lambda pid=pid: is_over(pid), f"{name} is gone")
    assert [] == list(temporary.iterdir())


def test_budget_of_the_file_counts_for_the_converter(program, temporary):
    """It gets the time that is left, not one of its own."""
    program("sleep 600")
    began = time.monotonic()

    with pytest.raises(ReaderBudgetExceeded):
        read(FOLDER / "report.doc", budget=Budget(seconds=0.5))
    assert time.monotonic() - began < libreoffice.SECONDS


def test_what_the_converter_cannot_read_is_corrupt(program, temporary):
    """What it says goes into the details."""
    program("echo 'Error: source file could not be loaded' >&2")

    with pytest.raises(CorruptSource) as caught:
        read(FOLDER / "report.doc")
    assert "could not be loaded" in str(caught.value.details["detail"])
    assert [] == list(temporary.iterdir())


def test_converter_sees_nothing_of_this_process(program, monkeypatch, tmp_path):
    """Neither its environment nor the place of the file."""
    monkeypatch.setenv("KNOWLEDGE_TOKEN", "secret")
    program(f'env >{tmp_path}/env; echo "$@" >{tmp_path}/arguments')

    with pytest.raises(CorruptSource):
        read(FOLDER / "report.doc")
    assert "secret" not in (tmp_path / "env").read_text()
    assert str(FOLDER) not in (tmp_path / "arguments").read_text()


OWNER = """
import sys
from pathlib import Path
from knowledge.pipeline.readers.process import ReaderProcess

ReaderProcess().read(Path(sys.argv[1]), "report.doc", lambda event: None, lambda: None)
"""


def test_real_libreoffice_ends_with_the_owner_of_its_reader():
    """kill -9 of a slot while LibreOffice works for it: none of the four processes is left."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(FOLDER / "report.doc")])

    def family():
        found = psutil.Process(owner.pid).children(recursive=True)
        with suppress(psutil.NoSuchProcess):  # it has just ended; look again
            return found if any(one.name() == "soffice.bin" for one in found) else None

    processes = eventually(family, "LibreOffice is at work")
    owner.kill()
    owner.wait()

    gone, alive = psutil.wait_procs(processes, timeout=PATIENCE_SECONDS)
    assert [] == alive
    assert 4 <= len(gone)
