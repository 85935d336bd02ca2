"""Chooses the implementations and builds the service. `KNOWLEDGE_APP` names `service`; operator commands use its neighbours."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

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
from knowledge.model.budget import MIB, Budget
from knowledge.model.documents import EmbedderSpec
from knowledge.model.urls import host_of
from knowledge.pipeline.conversion.registry import Processors
from knowledge.pipeline.http.address import AllowList
from knowledge.pipeline.http.client import Limits, WebClient
from knowledge.pipeline.indexing.registry import Embedders
from knowledge.pipeline.readers.process import ReaderProcess
from knowledge.pipeline.readers.registry import ReaderRegistry
from knowledge.pipeline.sources import reader_service as reader_services
from knowledge.pipeline.sources.reader_service import ReaderService
from knowledge.pipeline.sources.robots import Robots
from knowledge.pipeline.sources.url import Web
from knowledge.pipeline.vectorstore.sqlite import SqliteIndexStores
from knowledge.runtime import Options, Runtime
from knowledge.service import KnowledgeService


def service() -> KnowledgeService:
    """The service of this process, with the environment's settings."""
    settings = config_settings.load()
    from config.celery import app

    built = runtime(settings, app)
    check(built)
    return KnowledgeService(built)


@contextmanager
def visited() -> Iterator[KnowledgeService]:
    """The service, for commands that found nothing. Where there is no catalogue yet they find an empty house: in a folder of
    its own, which goes with it, so that a look, or a wrong data directory, leaves nothing behind."""
    settings = config_settings.look()
    if Database(settings.database).path.exists():
        with closing(service()) as built:
            yield built
        return
    with TemporaryDirectory(prefix="knowledge-") as nowhere:
        empty = settings.model_copy(update={"data_dir": Path(nowhere), "database_url": None})
        with closing(KnowledgeService(runtime(empty, Celery(set_as_current=False)))) as built:
            check(built.rt)
            yield built


def runtime(settings: Settings, app: Celery, *, pooled: bool = True) -> Runtime:
    """All ports, chosen by the settings. Connects to nothing yet.

    Args:
        pooled: False in processes that fork: no connection outlives its use.
    """
    db = Database(settings.database, pooled=pooled)
    files = LocalRawFiles(settings.data_dir, own=[db.path])
    budget = reader_budget(settings)
    return Runtime(
        db=db,
        files=files,
        locks=FileLocks(settings.data_dir / "locks", settings.lock_seconds),
        indexes=SqliteIndexStores(lambda base_id: files.index_folder(base_id) / "index.sqlite", busy_timeout_seconds=30.0),
        readers=ReaderRegistry.installed(budget, ReaderProcess(budget)),
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
            hanging_at_once=settings.worker_concurrency - 1,
            conversion_seconds=settings.conversion_seconds,
            conversion_poll_seconds=settings.conversion_poll_seconds,
            import_roots=tuple(root.resolve() for root in settings.import_roots),
        ),
        web=web(settings),
        processors=Processors.installed({"ocr": ocr_options(settings, budget), "docling": docling_options(settings)}),
    )


def web(settings: Settings) -> Web:
    """How pages are fetched."""
    allow = AllowList.of(settings.http_allow)
    limits = Limits(total_seconds=settings.http_seconds, max_bytes=settings.http_max_mib * MIB)
    proxy = settings.http_proxy.get_secret_value() if settings.http_proxy else None
    client = WebClient(user_agent=settings.http_user_agent, limits=limits, allow=allow, proxy=proxy)
    return Web(
        client,
        Robots(client),
        service=reader_service(settings, client),
        obey_robots=settings.url_robots,
        page_bytes=settings.url_page_max_mib * MIB,
        host_at_once=settings.url_host_concurrency,
        host_per_minute=settings.url_host_per_minute,
        service_at_once=settings.url_reader_concurrency,
        service_per_minute=settings.url_reader_per_minute,
        sitemap_pages=settings.sitemap_pages,
    )


def reader_service(settings: Settings, client: WebClient) -> ReaderService | None:
    if settings.url_reader is None:
        return None
    endpoint = reader_services.JINA if settings.url_reader == config_settings.JINA else settings.url_reader
    key = settings.url_reader_key.get_secret_value() if settings.url_reader_key else None
    return ReaderService(endpoint, client.allowing(host_of(endpoint)), key)


def ocr_options(settings: Settings, budget: Budget) -> dict[str, Any]:
    return {
        "slots": settings.run_dir / "ocr",
        "languages": settings.ocr_languages,
        "processes": settings.ocr_processes or max(2, (os.cpu_count() or 1) // 2),
        "budget": budget,
    }


def docling_options(settings: Settings) -> dict[str, Any]:
    return {
        "url": settings.docling_url,
        "api_key": settings.docling_api_key.get_secret_value() if settings.docling_api_key else "",
        "billed": settings.docling_billed,
    }


def reader_budget(settings: Settings) -> Budget:
    """What reading one file may take."""
    return Budget(
        inflated_bytes=settings.reader_inflated_mib * MIB,
        entries=settings.reader_entries,
        pages=settings.reader_pages,
        pixels=settings.reader_megapixels * 1_000_000,
        seconds=settings.reader_seconds,
        memory_bytes=settings.reader_memory_mib * MIB,
    )


def check(rt: Runtime) -> None:
    """Refuse to start on a catalogue of another version; a new one is made."""
    schema.make_if_new(rt.db)
    schema.require_current(rt.db)


def run_broker() -> int:
    return broker.run(config_settings.load())


def describe_settings() -> Sequence[EffectiveSetting]:
    return config_settings.effective(config_settings.look())


def upgrade_database() -> str:
    db = Database(config_settings.load().database)
    return f"The catalogue is at version {schema.upgrade(db)}."


def list_models() -> Sequence[EmbedderSpec]:
    return models.load(config_settings.look().models_file).embedders


def default_embedder() -> str | None:
    """Id of the declared default, None if there is none or its packages are not installed."""
    declared = models.load(config_settings.look().models_file)
    model_id = declared.default_embedder
    return None if model_id is None or Embedders(declared.embedders).missing_packages(model_id) else model_id


def log_directory() -> Path:
    return config_settings.look().run_dir / "logs"
