"""Everything that can go wrong, as one tree.

KnowledgeError                      500  knowledge_error
├── InvalidInput                    422  invalid_input
│   ├── EmptyQuery                  422  empty_query
│   ├── UnsafePath                  422  unsafe_path
│   ├── PathNotFound                422  path_not_found
│   ├── PathUnreadable              422  path_unreadable
│   ├── PathNotAllowed              422  path_not_allowed
│   ├── InvalidUrl                  422  invalid_url
│   ├── SourcesMissing              422  sources_missing
│   ├── SourcesUnverifiable         422  sources_unverifiable
│   ├── ItemsUnfinished             422  items_unfinished
│   ├── KeyReused                   409  key_reused
│   ├── BundleUnreadable            422  bundle_unreadable
│   └── BaseFailed                  422  base_failed
├── NotFound                        404  not_found
│   ├── BaseNotFound                404  base_not_found
│   ├── ItemNotFound                404  item_not_found
│   ├── ItemNotInBase               404  item_not_in_base
│   ├── GroupNotFound               404  group_not_found
│   ├── JobNotFound                 404  job_not_found
│   └── ModelNotFound               404  model_not_found
├── InvalidOperation                400  invalid_operation
├── Unavailable                     503  unavailable
│   ├── BaseBusy                    503  base_busy
│   ├── DatabaseBusy                503  database_busy
│   ├── CommandTimeout              503  command_timeout
│   ├── CommandLost                 503  command_lost
│   ├── FleetBusy                   503  fleet_busy
│   └── BrokerUnavailable           503  broker_unavailable
├── StorageFull                     507  storage_full
├── StorageFailed                   500  storage_failed
├── ConfigurationError              500  configuration_error
│   └── SchemaMismatch              500  schema_mismatch
├── IndexFault                      500  index_fault
│   ├── IndexCorrupt                500  index_corrupt
│   ├── IndexMismatch               409  index_mismatch
│   └── DimensionMismatch           409  dimension_mismatch
├── SourceFault                     422  unreadable       a file or note that cannot become text
│   ├── SourceMissing               422  missing
│   ├── EmptySource                 422  empty
│   ├── UnsupportedSource           422  unsupported
│   ├── BinarySource                422  binary
│   ├── CorruptSource               422  corrupt
│   ├── EncryptedSource             422  encrypted
│   ├── ReaderBudgetExceeded        422  reader_budget_exceeded
│   ├── NoIndexableFiles            422  no_indexable_files
│   └── NoTextExtracted             422  no_text_extracted
├── ConversionFault                 502  conversion_failed   a converter that did not make text of a file
│   ├── ConverterMissing            503  converter_missing       not declared, not installed or not set up
│   ├── ConverterRefused            502  converter_refused       401, 403, other 4xx
│   ├── ConverterBadAnswer          502  converter_bad_answer    truncated, not of its protocol
│   ├── ConverterUnavailable        503  converter_unavailable   5xx, timeout, no connection
│   ├── ConversionTimeout           504  conversion_timeout      longer than the deadline of one item
│   └── ConversionLost              502  conversion_lost         the converter does not know the task any more
├── EmbeddingFault                  502  embedding_failed  an embedder that did not answer well
│   ├── EmbedderRefused             502  embedder_refused        401, 403, 404, other 4xx
│   ├── EmbedderBadAnswer           502  embedder_bad_answer     count, width, order, NaN
│   ├── EmbedderUnavailable         503  embedder_unavailable    5xx, timeout, no connection
│   └── EmbedderSlowDown            503  embedder_slow_down      429, 503 with Retry-After
├── FetchFault                      502  fetch_failed      a page that could not be fetched
│   ├── AddressRefused              422  address_refused        private, metadata, credentials, other schemes
│   ├── FetchRefused                422  fetch_refused          4xx, an error page, a bad certificate
│   ├── FetchBlocked                422  fetch_blocked          a page against robots instead of the content
│   ├── FetchDisallowed             422  fetch_disallowed       robots.txt
│   ├── FetchTooLarge               422  fetch_too_large
│   └── FetchSlowDown               503  fetch_slow_down        429, 503 with Retry-After
└── Interrupted                     409  interrupted       control flow inside a job, never shown
    ├── LeaseLost                   409  lease_lost
    ├── CancelRequested             409  cancel_requested
    ├── Draining                    503  draining
    └── Stalled                     500  stalled

`code` is stable and what callers branch on; the docstring is the default message; `http_status` is what an HTTP edge answers;
`transient` says whether the same job may succeed if it is simply run again; one error may say no where its kind says yes.
"""

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar

JsonValue = Any  #: None, bool, int, float, str, or lists and string-keyed dicts of these


class KnowledgeError(Exception):
    """The knowledge service could not do what was asked."""

    code: ClassVar[str] = "knowledge_error"
    http_status: ClassVar[int] = 500
    transient: bool = False

    def __init__(self, message: str | None = None, **details: JsonValue) -> None:
        super().__init__(message or inspect.getdoc(type(self)))
        self.details: dict[str, JsonValue] = details

    def to_wire(self) -> dict[str, JsonValue]:
        return {"code": self.code, "message": str(self), "details": self.details}


class InvalidInput(KnowledgeError):
    """The request is not valid."""

    code = "invalid_input"
    http_status = 422


class EmptyQuery(InvalidInput):
    """The query holds no letter or digit to search for."""

    code = "empty_query"


class UnsafePath(InvalidInput):
    """This path is empty, absolute, reserved, or leaves the base."""

    code = "unsafe_path"


class PathNotFound(InvalidInput):
    """There is no such file or directory."""

    code = "path_not_found"


class PathUnreadable(InvalidInput):
    """This file or directory may not be read."""

    code = "path_unreadable"


class PathNotAllowed(InvalidInput):
    """This path is not below the fleet's import roots (KNOWLEDGE_IMPORT_ROOTS)."""

    code = "path_not_allowed"


class InvalidUrl(InvalidInput):
    """This is no address of a page: it must be http:// or https://, with a host and without a user name."""

    code = "invalid_url"


class SourcesMissing(InvalidInput):
    """Some sources are gone; delete these items, or add them again from where they are now."""

    code = "sources_missing"


class SourcesUnverifiable(InvalidInput):
    """Some sources cannot be reached now; try again later."""

    code = "sources_unverifiable"


class ItemsUnfinished(InvalidInput):
    """Some of these items are being worked on; wait until they are completed or failed."""

    code = "items_unfinished"


class KeyReused(InvalidInput):
    """This idempotency key was used for another request; nothing was added. Give each request a key of its own."""

    code = "key_reused"
    http_status = 409


class BundleUnreadable(InvalidInput):
    """This file is not a bundle of a base."""

    code = "bundle_unreadable"


class BaseFailed(InvalidInput):
    """This base has failed; restore it into a new base first."""

    code = "base_failed"


class NotFound(KnowledgeError):
    """There is no such thing."""

    code = "not_found"
    http_status = 404


class BaseNotFound(NotFound):
    """There is no base with this id or name."""

    code = "base_not_found"


class ItemNotFound(NotFound):
    """There is no item with this id."""

    code = "item_not_found"


class ItemNotInBase(NotFound):
    """One of these items is not in this base."""

    code = "item_not_in_base"


class GroupNotFound(NotFound):
    """There is no group with this id."""

    code = "group_not_found"


class JobNotFound(NotFound):
    """There is no job with this id."""

    code = "job_not_found"


class ModelNotFound(NotFound):
    """This model is not declared in the models file."""

    code = "model_not_found"


class InvalidOperation(KnowledgeError):
    """This cannot be done now."""

    code = "invalid_operation"
    http_status = 400


class Unavailable(KnowledgeError):
    """The service cannot answer now; try again."""

    code = "unavailable"
    http_status = 503
    transient = True


class BaseBusy(Unavailable):
    """Another operation holds this base; try again in a moment."""

    code = "base_busy"


class DatabaseBusy(Unavailable):
    """The catalogue is locked by another writer; try again in a moment."""

    code = "database_busy"


class CommandTimeout(Unavailable):
    """The fleet did not answer in time; the operation may be done all the same."""

    code = "command_timeout"


class CommandLost(Unavailable):
    """The process that ran this command was lost; the operation may be done all the same."""

    code = "command_lost"


class FleetBusy(Unavailable):
    """Too many operations that wait are running in the fleet; nothing has been done, try again."""

    code = "fleet_busy"


class BrokerUnavailable(Unavailable):
    """The message broker does not answer; accepted work waits in the ledger."""

    code = "broker_unavailable"


class StorageFull(KnowledgeError):
    """There is no space left for this base's files."""

    code = "storage_full"
    http_status = 507
    transient = True


class StorageFailed(KnowledgeError):
    """The disk refused to read or write a file of this base."""

    code = "storage_failed"
    transient = True


class ConfigurationError(KnowledgeError):
    """The configuration is not valid."""

    code = "configuration_error"


class SchemaMismatch(ConfigurationError):
    """The catalogue's tables are not of this version; run `knowledge db upgrade`."""

    code = "schema_mismatch"


class IndexFault(KnowledgeError):
    """The index of this base could not be used."""

    code = "index_fault"


class IndexCorrupt(IndexFault):
    """The index of this base is damaged or gone; `item reindex --interrupted` makes it again."""

    code = "index_corrupt"


class IndexMismatch(IndexFault):
    """The index file belongs to another base or another layout."""

    code = "index_mismatch"
    http_status = 409


class DimensionMismatch(IndexFault):
    """The vectors do not have the width that this base was created with."""

    code = "dimension_mismatch"
    http_status = 409


class SourceFault(KnowledgeError):
    """This source could not be read."""

    code = "unreadable"
    http_status = 422


class SourceMissing(SourceFault):
    """The stored copy of this source is gone."""

    code = "missing"


class EmptySource(SourceFault):
    """This file has 0 bytes."""

    code = "empty"


class UnsupportedSource(SourceFault):
    """No reader knows this type of file."""

    code = "unsupported"


class BinarySource(SourceFault):
    """This file is named like text but holds binary data."""

    code = "binary"


class CorruptSource(SourceFault):
    """This file is damaged."""

    code = "corrupt"


class EncryptedSource(SourceFault):
    """This file needs a password."""

    code = "encrypted"


class ReaderBudgetExceeded(SourceFault):
    """Reading this file took more than it may."""

    code = "reader_budget_exceeded"


class NoIndexableFiles(SourceFault):
    """This directory holds no file that can be read."""

    code = "no_indexable_files"


class NoTextExtracted(SourceFault):
    """This source holds no text."""

    code = "no_text_extracted"


class ConversionFault(KnowledgeError):
    """The converter could not make text of this file."""

    code = "conversion_failed"
    http_status = 502


class ConverterMissing(ConversionFault):
    """The file processor of this base is not there."""

    code = "converter_missing"
    http_status = 503


class ConverterRefused(ConversionFault):
    """The converter refuses the request."""

    code = "converter_refused"


class ConverterBadAnswer(ConversionFault):
    """The converter's answer is not what its protocol says."""

    code = "converter_bad_answer"


class ConverterUnavailable(ConversionFault):
    """The converter does not answer."""

    code = "converter_unavailable"
    http_status = 503
    transient = True


class ConversionTimeout(ConversionFault):
    """The conversion took longer than one item may take (KNOWLEDGE_CONVERSION_SECONDS)."""

    code = "conversion_timeout"
    http_status = 504


class ConversionLost(ConversionFault):
    """The converter does not know this task any more; its result will never come."""

    code = "conversion_lost"


class EmbeddingFault(KnowledgeError):
    """The embedder did not do its work."""

    code = "embedding_failed"
    http_status = 502
    transient = True


class EmbedderRefused(EmbeddingFault):
    """The embedder refused the request; check its key, address and model."""

    code = "embedder_refused"
    transient = False


class EmbedderBadAnswer(EmbeddingFault):
    """The embedder's answer has the wrong number, order, width or values of vectors."""

    code = "embedder_bad_answer"


class EmbedderUnavailable(EmbeddingFault):
    """The embedder does not answer."""

    code = "embedder_unavailable"
    http_status = 503


class EmbedderSlowDown(EmbeddingFault):
    """The embedder asks to wait."""

    code = "embedder_slow_down"
    http_status = 503

    def __init__(self, message: str | None = None, *, retry_after_seconds: float = 5.0, **details: JsonValue) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds, **details)
        self.retry_after_seconds = retry_after_seconds


class FetchFault(KnowledgeError):
    """The page could not be fetched."""

    code = "fetch_failed"
    http_status = 502
    transient = True


class AddressRefused(FetchFault):
    """This address leads into a private network, which only KNOWLEDGE_HTTP_ALLOW opens, or is no http address."""

    code = "address_refused"
    http_status = 422
    transient = False


class FetchRefused(FetchFault):
    """The web server does not give this page."""

    code = "fetch_refused"
    http_status = 422
    transient = False


class FetchBlocked(FetchFault):
    """The web server takes us for a robot and shows a page that says so; its content was not stored."""

    code = "fetch_blocked"
    http_status = 422
    transient = False


class FetchDisallowed(FetchFault):
    """The robots.txt of this web server does not allow this page to be fetched."""

    code = "fetch_disallowed"
    http_status = 422
    transient = False


class FetchTooLarge(FetchFault):
    """This page is larger than what may be fetched."""

    code = "fetch_too_large"
    http_status = 422
    transient = False


class FetchSlowDown(FetchFault):
    """The web server asks to wait."""

    code = "fetch_slow_down"
    http_status = 503

    def __init__(self, message: str | None = None, *, retry_after_seconds: float = 30.0, **details: JsonValue) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds, **details)
        self.retry_after_seconds = retry_after_seconds


class Interrupted(KnowledgeError):
    """This run of a job must stop."""

    code = "interrupted"
    http_status = 409


class LeaseLost(Interrupted):
    """This run no longer owns its job."""

    code = "lease_lost"


class CancelRequested(Interrupted):
    """This job was asked to stop."""

    code = "cancel_requested"


class Draining(Interrupted):
    """This worker is shutting down."""

    code = "draining"
    http_status = 503


class Stalled(Interrupted):
    """This job made no progress for too long."""

    code = "stalled"
    http_status = 500


def all_errors() -> Mapping[str, type[KnowledgeError]]:
    """Every class of the tree by its code; used to rebuild an error from the wire."""
    found: dict[str, type[KnowledgeError]] = {}
    pending: list[type[KnowledgeError]] = [KnowledgeError]
    while pending:
        kind = pending.pop()
        found[kind.code] = kind
        pending.extend(kind.__subclasses__())
    return found
