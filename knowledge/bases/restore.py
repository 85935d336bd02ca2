"""Rebuild a base into a new one, from its own bytes where it has them. The source is never changed."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path

from knowledge.bases.making import making
from knowledge.catalog import bases, items
from knowledge.db.engine import Tx
from knowledge.errors import InvalidInput, InvalidOperation, KnowledgeError, SourceMissing
from knowledge.ingestion import add, origin
from knowledge.ingestion.incoming import Incoming
from knowledge.ingestion.reindex import probe, require_allowed
from knowledge.model.ids import BaseId
from knowledge.model.inputs import BaseInput, checked_name
from knowledge.model.item_data import DataKey
from knowledge.model.results import RestoreReceipt
from knowledge.model.status import CONTAINERS, ItemType
from knowledge.model.views import Base, Item
from knowledge.pipeline.sources.probe import Probe
from knowledge.runtime import Runtime


def restore_base(rt: Runtime, base_id: BaseId, name: str, embedder: str | None) -> RestoreReceipt:
    """A new base with the settings and roots of an old one, failed ones included, and the given embedder.

    Roots whose source is gone are skipped and counted; those that cannot be reached now are kept. Containers expand again.

    Raises:
        BaseNotFound, ModelNotFound. InvalidInput: the name is blank, or taken: nobody could tell the two apart.
        PathNotAllowed: a directory or archive that this caller may not have read; nothing has been made.
        InvalidOperation: the roots were refused; the new base is gone again.
    """
    with rt.db.read() as tx:
        source = bases.get(tx, base_id)
        roots = items.roots(tx, base_id)
        _require_free(tx, name.strip())
    require_allowed(rt, [root for root in roots if root.type in CONTAINERS])  # files come from their stored bytes
    settings = _settings(source, name, embedder)
    with ExitStack() as files:
        incoming = [one for root in roots if (one := _incoming(rt, root, files)) is not None]
        with making(rt, settings) as made:
            try:
                accepted = add.fill(rt, made.id, incoming, partial(_reveal, made=made))
            except KnowledgeError as error:
                raise InvalidOperation("The items were refused; the new base is gone again.", reason=error.to_wire()) from error
    rt.dispatch.publish_due(made.id)
    with rt.db.read() as tx:
        kept = items.visible(tx, made.id, accepted)
        made = bases.get(tx, made.id, include_deleting=True)  # perhaps somebody has deleted it by now
    in_order = [kept[item_id] for item_id in accepted if item_id in kept]
    return RestoreReceipt(made, in_order, skipped_missing_sources=len(roots) - len(incoming))


def _reveal(tx: Tx, *, made: Base) -> None:
    """Raises `InvalidInput` if another restore was faster with this name."""
    _require_free(tx, made.name)
    bases.reveal(tx, made.id)


def _require_free(tx: Tx, name: str) -> None:
    if taken := bases.named(tx, name):
        raise InvalidInput(f"There is a base named {name!r} already.", field="name", base_ids=taken)


def _settings(source: Base, name: str, embedder: str | None) -> BaseInput:
    try:
        checked_name(name)
    except ValueError as error:
        raise InvalidInput(f"The name of a base: {error}.", field="name") from error
    return BaseInput(
        name=name,
        embedder=embedder,
        group_id=source.group_id,
        rerank_model=source.rerank_model,
        file_processor=source.file_processor,
        chunk_size=source.chunk_size,
        chunk_overlap=source.chunk_overlap,
        chunk_strategy=source.chunk_strategy,  # type: ignore[arg-type]  # the row's CHECK allows only these
        chunk_separator=source.chunk_separator,
        threshold=source.threshold,
        document_count=source.document_count,
        fail_on_empty=source.fail_on_empty,
        shard=source.shard,
    )


def _incoming(rt: Runtime, root: Item, files: ExitStack) -> Incoming | None:
    """The root as an input of the new base; None if its source is gone."""
    match root.type:
        case ItemType.DIRECTORY | ItemType.ARCHIVE:
            data = origin.kept(root) | _kept(root, DataKey.INCLUDE, DataKey.EXCLUDE)
            is_gone = probe(rt, root) is Probe.MISSING
            return None if is_gone else Incoming(root.type, root.source, root.stored_name, data=data)
        case ItemType.FILE if root.relative_path:
            try:
                stored = files.enter_context(rt.files.local(root.base_id, root.relative_path))
            except SourceMissing:
                return None
            data = origin.kept(root)
            result = _result(rt, root, files)
            if result is not None:
                data |= _kept(root, DataKey.CONVERTED_SHA256)
            return Incoming(root.type, root.source, root.stored_name, bytes_at=stored, data=data, converted_at=result)
        case ItemType.NOTE:
            return Incoming.note(root.source, str(root.data.get(DataKey.CONTENT, "")))
        case ItemType.URL:
            return _page(rt, root, files)
        case ItemType.SITEMAP:
            return Incoming(root.type, root.source, root.stored_name)
        case _:
            return None


def _result(rt: Runtime, root: Item, files: ExitStack) -> Path | None:
    """Markdown that a conversion has left of it: in the new base it need not be converted again."""
    if root.indexed_path is None:
        return None
    try:
        return files.enter_context(rt.files.local(root.base_id, root.indexed_path))
    except SourceMissing:
        return None


def _page(rt: Runtime, root: Item, files: ExitStack) -> Incoming:
    """With its stored copy, so that nothing is fetched; without one it is fetched when it is indexed."""
    try:
        if root.relative_path is None:
            return Incoming.page(root.source)
        stored = files.enter_context(rt.files.local(root.base_id, root.relative_path))
    except SourceMissing:
        return Incoming.page(root.source)
    data = _kept(root, DataKey.CAPTURE, DataKey.TITLE)
    return Incoming(root.type, root.source, root.stored_name, bytes_at=stored, data=data)


def _kept(root: Item, *keys: DataKey) -> dict[str, object]:
    return {key: value for key, value in root.data.items() if key in keys}
