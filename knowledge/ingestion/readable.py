"""Which files can become text here: those that a reader knows, and pictures where something converts them."""

from pathlib import Path

from knowledge.catalog import bases
from knowledge.errors import UnsupportedSource
from knowledge.model.ids import BaseId
from knowledge.model.skip_reason import SkipReason
from knowledge.model.views import Base
from knowledge.pipeline.conversion.pictures import IMAGE_SUFFIXES, PNG
from knowledge.pipeline.sources.directory import Accepts
from knowledge.runtime import Runtime


def require(rt: Runtime, base: Base, path: Path, name: str) -> None:
    """Refuse a file of which nothing would make text, by its content.

    Raises:
        UnsupportedSource: says what to install, if that would help. BinarySource, SourceFault.
    """
    try:
        rt.readers.require_reader(path, name)
    except UnsupportedSource as error:
        media_type = str(error.details.get("media_type", ""))
        if not rt.processors.takes(base.file_processor, media_type):
            raise UnsupportedSource(rt.processors.complaint(media_type) or str(error), **error.details) from error


def accepts(rt: Runtime, base_id: BaseId) -> Accepts:
    """What a directory of this base takes of the files in it."""
    with rt.db.read() as tx:
        base = bases.get(tx, base_id)
    takes_pictures = rt.processors.takes(base.file_processor, PNG)

    def taken(name: str, path: Path) -> SkipReason | None:
        if takes_pictures and Path(name).suffix.lower() in IMAGE_SUFFIXES:
            return None
        return rt.readers.accepts(name, path)

    return taken
