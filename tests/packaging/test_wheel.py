"""The wheel in somebody else's environment: thin, typed, and out of the way of an application's own `tasks` and `config`."""

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from config import broker
from config.settings import load
from deploy.run import stack
from tests.fleet import FLOWER, START_SECONDS

ROOT = Path(__file__).parents[2]

HEAVY = (
    "alembic",
    "apsw",
    "httpx",
    "magic",
    "numpy",
    "onnxruntime",
    "pydantic_settings",
    "pypdfium2",
    "sqlalchemy",
    "sqlmodel",
)
THIN = (
    "knowledge",
    "knowledge.client",
    "knowledge.errors",
    "knowledge.logs",
    "knowledge.topology",
    "knowledge.model.ids",
    "knowledge.model.inputs",
    "knowledge.model.jobs",
    "knowledge.model.results",
    "knowledge.model.status",
    "knowledge.model.views",
    "knowledge.model.wire",
)

PROBE = f"""
import importlib, json, sys
import tasks, config
import config.settings
thin = {{name: importlib.import_module(name).__file__ for name in {THIN!r}}}
heavy = [name for name in {HEAVY!r} if name in sys.modules]
print(json.dumps({{"thin": thin, "heavy": heavy, "tasks": tasks.OWNER, "config": config.settings.OWNER}}))
"""

VISIT = f"""
import json, sys
from knowledge import BaseInput, KnowledgeClient, KnowledgeError, NoteInput
with KnowledgeClient(sys.argv[1]) as fleet:
    base = fleet.create_base(BaseInput(name="visited", embedder="local/hashing"))
    receipt = fleet.add_items(base.id, [NoteInput(content="The keeper winds the clockwork.")], idempotency_key="once")
    counts = fleet.wait(receipt, timeout_seconds=200).counts
    hits = fleet.search(base.id, "clockwork").hits
    try:
        fleet.base("nowhere")
    except KnowledgeError as error:
        refused = [type(error).__module__, type(error).__name__, error.code, error.http_status]
    fleet.delete_base(base.id)
heavy = [name for name in {HEAVY!r} if name in sys.modules]
print(json.dumps({{"counts": counts.leaves, "hits": [hit.text for hit in hits], "refused": refused, "heavy": heavy}}))
"""


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT, cwd=folder)
    (built,) = folder.glob("knowledge_pipeline-*.whl")
    return built


@pytest.fixture(scope="module")
def application(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with packages `tasks` and `config` of its own, and beside it `env` with the wheel's base install."""
    folder = tmp_path_factory.mktemp("application")
    for package, module in (("tasks", "__init__"), ("config", "settings")):
        (folder / package).mkdir()
        (folder / package / "__init__.py").touch()
        (folder / package / f"{module}.py").write_text('OWNER = "the application"\n')
    venv.create(folder / "env", with_pip=True, symlinks=True)
    run(folder / "env/bin/python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel, cwd=folder)
    return folder


def test_wheel_holds_the_library_alone(wheel):
    """Nothing but `knowledge` and the metadata is installed; the type marker, the licence and the console script are there."""
    names = ZipFile(wheel).namelist()
    metadata = f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"

    assert {"knowledge", metadata} == {name.split("/")[0] for name in names}
    assert {"knowledge/py.typed", f"{metadata}/licenses/LICENSE", f"{metadata}/entry_points.txt"} <= set(names)
    assert [] == [name for name in names if "__pycache__" in name or name.endswith(".pyc")]


def test_base_install_is_thin_and_leaves_the_applications_names_alone(application):
    """With the base dependencies the client's modules load nothing heavy, and `tasks` and `config` are the application's."""
    seen = json.loads(run(application / "env/bin/python", "-c", PROBE, cwd=application))

    assert "the application" == seen["tasks"] == seen["config"]
    assert [] == seen["heavy"]
    assert all(path.startswith(str(application / "env")) for path in seen["thin"].values())


def test_base_install_brings_the_pinned_transport_and_no_server_package(application):
    """The pins that keep workers alive hold in every environment, and no package of the server comes along."""
    listed = json.loads(run(application / "env/bin/python", "-m", "pip", "list", "--format", "json", cwd=application))
    installed = {package["name"].lower(): package["version"] for package in listed}

    assert ("5.6.3", "5.6.2") == (installed["celery"], installed["kombu"])
    assert ("6", True) == (installed["redis"].split(".")[0], int(installed["redis"].split(".")[1]) < 5)
    assert [] == [name for name in ("apsw", "numpy", "sqlalchemy", "sqlmodel", "typer") if name in installed]


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[str]:
    """The address of the broker of a fleet that runs."""
    environ = {**os.environ, **FLOWER, "KNOWLEDGE_DATA_DIR": str(tmp_path / "data"), "KNOWLEDGE_DRAIN_SECONDS": "2"}
    stack.up(environ, wait_seconds=START_SECONDS)
    yield broker.endpoint(load(environ))
    stack.down(environ)


def test_base_install_is_all_that_a_client_needs(application, fleet):
    """From there a base is made, filled, searched and deleted; errors have their class, and nothing heavy is loaded."""
    seen = json.loads(run(application / "env/bin/python", "-c", VISIT, fleet, cwd=application))

    assert {"completed": 1} == seen["counts"]
    assert ["The keeper winds the clockwork."] == seen["hits"]
    assert ["knowledge.errors", "BaseNotFound", "base_not_found", 404] == seen["refused"]
    assert [] == seen["heavy"]


def test_console_script_of_the_base_install_says_what_is_missing(application):
    """Without the server packages the command ends as a usage error that names the way out, not with a traceback."""
    done = subprocess.run(
        [application / "env/bin/knowledge", "base", "list"], cwd=application, capture_output=True, text=True, check=False
    )

    assert 2 == done.returncode
    assert "knowledge-pipeline[server]" in done.stderr
    assert "Traceback" not in done.stderr


def test_checkout_finds_its_own_packages_from_any_directory(tmp_path):
    """In the checkout's own environment `config` and `tasks` are the checkout's, wherever the command is started."""
    program = "import config, tasks, knowledge; print(config.__file__, tasks.__file__, knowledge.__file__)"

    found = run(sys.executable, "-c", program, cwd=tmp_path).split()

    assert [str(ROOT / name / "__init__.py") for name in ("config", "tasks", "knowledge")] == found
