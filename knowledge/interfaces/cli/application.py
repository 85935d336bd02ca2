"""How the command line finds the application it belongs to.

`KNOWLEDGE_APP` names a callable that returns a `KnowledgeService`; operator commands use the functions beside it in the same
module. It is the one environment variable read outside `config/`, because it says where `config/` is.
"""

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from knowledge.model.documents import EmbedderSpec
    from knowledge.service import KnowledgeService

DEFAULT_APP = "config.wiring:service"


class Setting(Protocol):
    """One effective setting, ready to be shown: `value` has secrets masked already."""

    @property
    def name(self) -> str: ...
    @property
    def variable(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def origin(self) -> str: ...
    @property
    def description(self) -> str: ...


class Application(Protocol):
    """The module that `KNOWLEDGE_APP` points into."""

    def visited(self) -> AbstractContextManager["KnowledgeService"]:
        """The service, of an empty house where there is none yet; nothing is made there."""
        ...

    def run_broker(self) -> int:
        """Run the embedded broker in this process until it is told to stop; its exit code."""
        ...

    def describe_settings(self) -> Sequence[Setting]: ...

    def upgrade_database(self) -> str:
        """Bring the catalogue's tables to this version; one line that says what was done."""
        ...

    def default_embedder(self) -> str | None:
        """Id of the model that `base create` uses unless told otherwise; None if its package is not installed."""
        ...

    def list_models(self) -> Sequence["EmbedderSpec"]: ...

    def log_directory(self) -> Path:
        """Where the processes of this application write their logs; it may not exist yet."""
        ...


class NoApplication(Exception):
    """There is no application here that could run this command."""


@contextmanager
def opened_service(*, founds: bool = False) -> Iterator["KnowledgeService"]:
    """The service of this process for one command.

    Args:
        founds: whether the command may be the first thing that is ever done here. Others make nothing where nothing is.

    Raises:
        NoApplication: there is no factory under the configured name.
        KnowledgeError: the factory refused, for instance because of its settings.
    """
    module, factory = _load()
    if not founds and hasattr(module, "visited"):  # an application of somebody else need not tell the two apart
        with cast(Application, module).visited() as visited:
            yield visited
        return
    service = factory()
    try:
        yield service
    finally:
        service.close()


def application() -> Application:
    """The operator functions beside the factory.

    Raises:
        NoApplication: there is no factory under the configured name.
    """
    module, _ = _load()
    return cast(Application, module)


def _load() -> tuple[ModuleType, Callable[[], "KnowledgeService"]]:
    name = os.environ.get("KNOWLEDGE_APP") or DEFAULT_APP
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise NoApplication(f"KNOWLEDGE_APP must read `module:callable`, not {name!r}")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as missing:
        raise NoApplication(_explain(missing, name, module_name)) from missing
    factory = getattr(module, attribute, None)
    if not callable(factory):
        raise NoApplication(f"module {module_name} has no callable {attribute}; KNOWLEDGE_APP is {name}")
    return module, factory


def _explain(missing: ModuleNotFoundError, name: str, module_name: str) -> str:
    absent = missing.name or ""
    if module_name == absent or module_name.startswith(f"{absent}."):
        return (
            f"no application here: {name} cannot be imported. Run this from a checkout after `make setup`, "
            "or set KNOWLEDGE_APP to the `module:callable` of your own application."
        )
    return (
        f"the application {name} needs the package {absent}, which is not installed: pip install 'knowledge-pipeline[server]'"
    )
