"""knowledge.index-documents: read, cut and embed one leaf, then replace its material."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from knowledge.catalog import bases, items, jobs, rate, spend, status
from knowledge.errors import IndexCorrupt, NoTextExtracted, UnsupportedSource
from knowledge.ingestion import capture, convert, hanging, mending
from knowledge.ingestion.convert import Needed
from knowledge.ingestion.run import PutBack, Run
from knowledge.model.documents import Chunking, EmbeddingUse, Material, ReadResult, Vector
from knowledge.model.quality import Quality
from knowledge.model.status import ItemStatus, Notice
from knowledge.model.views import Base, Item
from knowledge.pipeline.conversion import artefact
from knowledge.pipeline.indexing import chunker
from knowledge.pipeline.indexing.chunker import Chunks
from knowledge.pipeline.indexing.embedder import Embedder, MeasuresInput
from knowledge.pipeline.indexing.embedding import embed_missing
from knowledge.pipeline.vectorstore.port import IndexStore
from knowledge.runtime import Runtime

_LACKING: Final = frozenset({Notice.NO_TEXT_EXTRACTED, Notice.PARTIAL_TEXT})


def run(rt: Runtime, run: Run) -> None:
    _await_embedder(rt, run)
    with capture.place(rt, run) as has_to_fetch:
        item, base = _begin(rt, run)
        if item is not None and has_to_fetch:
            item = capture.fetch(rt, run, item)
    if item is None or base is None:
        return _nothing_to_do(rt, run)
    run.tell("reading")
    is_converted = bool(run.job.input.get("converted")) or convert.has_result(rt, run.job, item)
    read, needed = _read(rt, run, base, item, is_converted=is_converted)
    if needed and (item.chunk_count is not None or read is None or not read.documents):
        return _pass_on(rt, run, item, needed)  # what the index holds stays until there is more
    assert read is not None
    embedder = rt.embedder(base)
    chunks = _cut(run, base, read, embedder)
    if not chunks.units and base.fail_on_empty:
        raise NoTextExtracted(path=item.relative_path)
    run.checkpoint()
    if chunks.units and embedder:
        with rt.db.write() as tx:
            jobs.require_ours(tx, run.job)
            status.begin(tx, item.id, ItemStatus.EMBEDDING)
    vectors = _embed(rt, run, base, item, chunks, embedder)
    run.tell("writing", chunks=len(chunks.units))
    path = item.concept_id if is_converted else item.relative_path
    material = Material(item.id, path or item.id, chunks.text, chunks.units, vectors)
    notices = read.notices if chunks.units else read.notices | {Notice.NO_TEXT_EXTRACTED}
    return _commit(rt, run, base, material, notices, read.quality, needed, is_converted=is_converted)


def _await_embedder(rt: Runtime, run: Run) -> None:
    """Raises `PutBack` if it hangs and somebody else asks it."""
    with rt.db.read() as tx:
        embedder = bases.embedder_of(tx, run.job.base_id)
        hangs = embedder is not None and rate.hangs(tx, hanging.embedder_scope(embedder))
    if embedder is not None and hangs:
        hanging.take_turn(rt, run, hanging.embedder_scope(embedder))


def _begin(rt: Runtime, run: Run) -> tuple[Item | None, Base | None]:
    with rt.db.write() as tx:
        jobs.require_ours(tx, run.job)
        item = status.begin(tx, run.job.only_item, ItemStatus.READING, unless=ItemStatus.COMPLETED)
        return item, None if item is None else bases.require_runnable(tx, item.base_id)


def _nothing_to_do(rt: Runtime, run: Run) -> None:
    """Deleted while it waited in the queue, or done already."""
    with rt.db.write() as tx:
        jobs.finish(tx, run.job)


def _pass_on(rt: Runtime, run: Run, item: Item, needed: Needed) -> None:
    """Have the file converted; an index job follows."""
    with rt.db.write() as tx:
        jobs.require_ours(tx, run.job)
        convert.pass_on(tx, run.job, item.id, needed)
        jobs.finish(tx, run.job)


def _read(rt: Runtime, run: Run, base: Base, item: Item, *, is_converted: bool) -> tuple[ReadResult | None, Needed | None]:
    """(its text, what must convert it to get more); no text where no reader knows the file."""
    path = item.indexed_path if is_converted else item.relative_path
    assert path is not None  # a file has its copy since it was added, a note its snapshot, a page since it was fetched
    with rt.files.local(item.base_id, path) as stored:
        if is_converted:
            return artefact.read(stored), None
        if capture.is_snapshot(item):
            return capture.with_capture(item, rt.readers.read_snapshot(stored)), None
        try:
            read = rt.readers.read(stored, capture.file_name(item), run.checkpoint)
        except UnsupportedSource as error:
            return None, _only_by_conversion(rt, base, error)
    lacks_text = bool(read.notices & _LACKING)
    chosen = rt.processors.choose(base.file_processor, read.media_type, lacks_text=lacks_text)
    if chosen is not None:
        return read, Needed(chosen.name, read.media_type)
    if lacks_text and rt.processors.complaint(read.media_type) is not None:
        read = replace(read, notices=read.notices | {Notice.OCR_MISSING})
    return read, None


def _only_by_conversion(rt: Runtime, base: Base, error: UnsupportedSource) -> Needed:
    """What makes text of a file that no reader knows; else the error, with what could be installed."""
    media_type = str(error.details.get("media_type", ""))
    chosen = rt.processors.choose(base.file_processor, media_type, lacks_text=True)
    if chosen is None:
        raise UnsupportedSource(rt.processors.complaint(media_type) or str(error), **error.details) from error
    return Needed(chosen.name, media_type)


def _cut(run: Run, base: Base, read: ReadResult, embedder: Embedder | None) -> Chunks:
    wanted = Chunking(base.chunk_size, base.chunk_overlap, base.chunk_strategy, base.chunk_separator)
    measure = embedder if isinstance(embedder, MeasuresInput) else None
    chunking = chunker.effective(wanted, embedder.spec if embedder else None)
    return chunker.split(read.documents, chunking, measure, run.checkpoint)


def _embed(
    rt: Runtime, run: Run, base: Base, item: Item, chunks: Chunks, embedder: Embedder | None
) -> Mapping[str, Vector] | None:
    if embedder is None:
        return None
    spec = embedder.spec
    asked = [hanging.embedder_scope(spec.id)]
    done = 0

    def meter(use: EmbeddingUse, cached: int) -> None:
        nonlocal done
        if spec.endpoint or spec.billed:
            with rt.db.write() as tx:
                spend.record(tx, spec, use, base_id=base.id, item_id=item.id, job_id=run.job.id, cached_texts=cached)
        if use.texts:
            hanging.answered(rt, asked)
        done += use.texts + cached  # last: a meter that fails is called again
        run.tell("embedding", done=done, of=len(chunks.units))

    with hanging.watched(rt, asked):
        return embed_missing(
            chunks.units,
            embedder=embedder,
            known=partial(_known, rt, base),
            cache=rt.cache if spec.billed else None,
            meter=meter,
            checkpoint=partial(run.checkpoint, look=spec.billed),
        )


def _commit(
    rt: Runtime,
    run: Run,
    base: Base,
    material: Material,
    notices: frozenset[Notice],
    quality: Quality,
    needed: Needed | None,
    *,
    is_converted: bool,
) -> None:
    """Publish the result: the only part that holds the base lock for the index."""
    job = run.job
    stale: str | None = None  #: Markdown of an earlier conversion, of a file that is now read itself
    with rt.locks.base(job.base_id):
        with rt.db.read() as tx:
            jobs.require_ours(tx, job)  # before the index: it has no transaction in common with the ledger
            wanted = items.find_wanted(tx, job.only_item)
            if wanted is not None and _contract(bases.get(tx, base.id)) != _contract(base):
                raise PutBack(0)
        if wanted is not None:
            mending.write(rt, base, partial(_replace, material))
        with rt.db.write() as tx:
            jobs.require_ours(tx, job)
            if wanted is not None and needed is not None:
                convert.pass_on(tx, job, wanted.id, needed)
            elif wanted is not None:  # else a delete won the race
                status.complete(tx, wanted, chunk_count=len(material.units), notices=notices, quality=quality)
                stale = None if is_converted else wanted.indexed_path
                if stale is not None:
                    convert.forget_result(tx, wanted)
            jobs.finish(tx, job)  # one commit: no completed item behind a running row
        if stale is not None:
            rt.files.remove(job.base_id, [stale])


def _replace(material: Material, index: IndexStore) -> None:
    if not _has_every_vector(index, material):
        raise PutBack(0)  # a delete took, with the last text of its kind, a vector that this run had found there
    index.rebuild_material(material)


def _known(rt: Runtime, base: Base, hashes: Collection[str]) -> frozenset[str]:
    try:
        return rt.index(base).known_hashes(hashes)
    except IndexCorrupt as fault:
        mending.mend(rt, base.id, fault)
    return rt.index(base).known_hashes(hashes)


def _has_every_vector(index: IndexStore, material: Material) -> bool:
    if material.vectors is None:
        return True
    reused = {unit.text_hash for unit in material.units} - material.vectors.keys()
    return not reused or reused <= index.known_hashes(reused)


def _contract(base: Base) -> tuple[object, ...]:
    return (base.embedder, base.dimensions, base.chunk_size, base.chunk_overlap, base.chunk_strategy, base.chunk_separator)
