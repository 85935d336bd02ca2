"""The folders in which conversions work, one for each check job, and how to be rid of them.

Whatever ends a check without its flow (a delete, a cancel, a lost worker) leaves the conversion running; it is found by its
folder, which holds what ends it.
"""

import json
import logging
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from knowledge.catalog import jobs
from knowledge.errors import KnowledgeError, StorageFailed
from knowledge.model.ids import BaseId, JobId
from knowledge.pipeline.conversion.port import Ticket
from knowledge.runtime import Runtime

log = logging.getLogger(__name__)

SOURCE: Final = "source"  #: the file to convert, as it was when the conversion began
_PREFIX: Final = "conversion-"
_TICKET: Final = "ticket.json"


def make(rt: Runtime, base_id: BaseId, job_id: JobId, stored: Path) -> Path:
    """An empty folder with the source in it; what an earlier try left there is gone.

    Raises:
        StorageFailed, StorageFull
    """
    rt.files.remove_work_folder(base_id, _name(job_id))
    work = rt.files.work_folder(base_id, _name(job_id))
    try:
        try:
            os.link(stored, work / SOURCE)  # keeps the bytes, whatever becomes of the name
        except OSError:  # a disk without links
            shutil.copyfile(stored, work / SOURCE)
    except OSError as error:
        raise StorageFailed(base_id=base_id, reason=error.strerror) from error
    return work


def place(rt: Runtime, base_id: BaseId, job_id: JobId) -> Path:
    return rt.files.work_folder(base_id, _name(job_id))


def keep_ticket(work: Path, processor: str, ticket: Ticket | None) -> None:
    """Write down who converts here and, once it has begun (else None), what finds it again. Raises `OSError`."""
    part = work / f"{_TICKET}.new"
    part.write_text(json.dumps({"processor": processor, "ticket": None if ticket is None else dict(ticket)}))
    part.rename(work / _TICKET)


def kept_ticket(rt: Runtime, base_id: BaseId, job_id: JobId) -> Ticket | None:
    """The ticket of this job's conversion, if it came as far as its folder."""
    if _name(job_id) not in rt.files.work_folders(base_id):
        return None
    ticket: Ticket | None = _told(place(rt, base_id, job_id) / _TICKET).get("ticket")
    return ticket


def stop(rt: Runtime, base_id: BaseId, job_id: JobId) -> None:
    """End the conversion of this job, if it still works, and remove its folder."""
    if _name(job_id) in rt.files.work_folders(base_id):
        _end(rt, base_id, _name(job_id))


def stop_unwanted(rt: Runtime, base_id: BaseId) -> int:
    """The same for every conversion of a base whose check has ended. Returns how many there were."""
    found = {name.removeprefix(_PREFIX): name for name in rt.files.work_folders(base_id) if name.startswith(_PREFIX)}
    if not found:
        return 0
    with rt.db.read() as tx:
        wanted = jobs.active_ids(tx, found)
    return _end_all(rt, base_id, (name for job_id, name in found.items() if job_id not in wanted))


def stop_all(rt: Runtime, base_id: BaseId) -> None:
    """The same for every conversion of a base that is about to be removed."""
    _end_all(rt, base_id, (name for name in rt.files.work_folders(base_id) if name.startswith(_PREFIX)))


def _end_all(rt: Runtime, base_id: BaseId, names: Iterable[str]) -> int:
    ended = 0
    for name in names:
        _end(rt, base_id, name)
        ended += 1
    return ended


def _end(rt: Runtime, base_id: BaseId, name: str) -> None:
    work = rt.files.work_folder(base_id, name)
    told = _told(work / _TICKET)
    try:
        rt.processors.get(str(told.get("processor", ""))).cancel(told.get("ticket") or {}, work)
    except KnowledgeError as error:
        log.warning("conversion not stopped", extra={"base": base_id, "folder": name, "code": error.code})
    rt.files.remove_work_folder(base_id, name)


def _told(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _name(job_id: JobId) -> str:
    return f"{_PREFIX}{job_id}"
