"""What holds for every test: the developer's own settings and data directory are out of reach."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    for name in [name for name in os.environ if name.startswith("KNOWLEDGE_")]:
        del os.environ[name]
    os.environ["KNOWLEDGE_DATA_DIR"] = tempfile.mkdtemp(prefix="knowledge-test-")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(Path(os.environ.pop("KNOWLEDGE_DATA_DIR")), ignore_errors=True)
