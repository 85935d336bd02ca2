"""knowledge item watch: keep a directory in step with its folder until Ctrl-C.

Changes are gathered until the folder has been quiet for a moment; then the directory is reindexed, changed files only. One such
reindex runs at a time; what changes meanwhile is seen by the next. A folder that is gone, or empty of a sudden, removes
nothing: it is waited for. What the system tells of changes is only a wake-up: each reindex looks at the whole folder.
"""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from knowledge.errors import (
    InvalidInput,
    ItemNotFound,
    ItemsUnfinished,
    JobNotFound,
    SourcesMissing,
    SourcesUnverifiable,
    Unavailable,
)
from knowledge.interfaces.cli.application import opened_service
from knowledge.interfaces.cli.exits import ExitCode
from knowledge.interfaces.cli.options import BaseName, Debug, Json, checked, example, texts
from knowledge.interfaces.cli.output import Output, counted, detail
from knowledge.interfaces.cli.shapes import counts_object
from knowledge.interfaces.cli.wait import missing_hands
from knowledge.model.ids import ItemId, JobId
from knowledge.model.inputs import DirectoryInput
from knowledge.model.jobs import ACTIVE_JOB
from knowledge.model.results import StatusCounts
from knowledge.model.status import CHILD_FAILED, ItemStatus
from knowledge.model.views import Base, Item

if TYPE_CHECKING:
    from knowledge.service import KnowledgeService

EXAMPLE: Final = example("knowledge item watch handbook ./docs")
QUIET_SECONDS: Final = 1.0  #: without a change, before the folder is looked at


def watch(
    base_name: BaseName,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A folder; added if the base does not have it yet.")],
    include: Annotated[
        list[str] | None, typer.Option("--include", metavar="PATTERN", callback=texts, help="As of `item add`, if it is added.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="PATTERN", callback=texts, help="As of `item add`, if it is added.")
    ] = None,
    quiet: Annotated[
        float, typer.Option("--quiet", metavar="SECONDS", min=0.1, help="How long nothing may change before it is looked at.")
    ] = QUIET_SECONDS,
    poll: Annotated[bool, typer.Option("--poll", help="Look for changes instead of being told: for network drives.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> ExitCode:
    """Keep a directory in step with its folder until Ctrl-C."""
    output = Output(as_json=json)
    with opened_service() as service:
        base = service.base(base_name)
        keeper = _Keeper(service, base, output)
        try:
            wanted = {"path": path, "include": tuple(include or ()), "exclude": tuple(exclude or ())}
            keeper.adopt(checked(DirectoryInput, wanted))
            for is_dirty in service.changes_in(path.absolute(), quiet_seconds=quiet, poll=poll, say=output.hint):
                keeper.tick(is_dirty=is_dirty)
        except KeyboardInterrupt:
            output.hint("stopped watching; what was begun goes on")
            return ExitCode.OK
    return ExitCode.FAILED  # unreachable: the watch ends by Ctrl-C or an error


class _Keeper:
    """Has the directory reindexed when it must be, one reindex at a time, and tells how each ended."""

    def __init__(self, service: "KnowledgeService", base: Base, output: Output) -> None:
        self._service, self._base, self._output = service, base, output
        self._item: Item | None = None
        self._job: JobId | None = None
        self._is_dirty = True  # nobody knows what happened before
        self._is_working = False
        self._told: str | None = None

    def adopt(self, wanted: DirectoryInput) -> None:
        """The directory item of this folder; added if there is none.

        Raises:
            InvalidInput: patterns are given and the folder has its own already. What adding raises.
        """
        found = self._service.directory_at(self._base.id, wanted.path.absolute())
        if found is None:
            receipt = self._service.add_items(self._base.id, [wanted])
            found, self._is_working, self._is_dirty = receipt.items[0], True, False
            if lacking := missing_hands(self._service, self._base, published=receipt.published):
                self._output.hint(f"accepted; {lacking}")
        elif wanted.include or wanted.exclude:
            raise InvalidInput("This folder is in the base already and keeps its patterns.", item_id=found.id)
        self._item = found
        self._output.hint(f"watching {found.source}; Ctrl-C ends it")

    def tick(self, *, is_dirty: bool) -> None:
        """
        Raises:
            ItemNotFound: somebody deleted the directory.
        """
        assert self._item is not None
        self._is_dirty |= is_dirty
        try:
            if self._service.item(self._item.id).status is ItemStatus.DELETING:
                raise ItemNotFound("The directory was deleted; there is nothing to keep in step.", item_id=self._item.id)
            if self._is_working and not self._has_ended(self._item.id):
                return
            if self._is_dirty:
                self._reindex(self._item.id)
        except Unavailable as busy:  # the next tick tries again
            self._say_once(str(busy))

    def _reindex(self, item_id: ItemId) -> None:
        try:
            receipt = self._service.reindex_items(self._base.id, [item_id], only_changed=True)
        except ItemsUnfinished:  # somebody else's work on it; it is looked at again when that is done
            return
        except (SourcesMissing, SourcesUnverifiable):
            self._say_once("the folder cannot be read now; nothing is removed, and it is waited for")
            return
        self._job, self._is_working, self._is_dirty, self._told = receipt.job_id, True, False, None
        if lacking := missing_hands(self._service, self._base, published=receipt.published):
            self._say_once(lacking)

    def _has_ended(self, item_id: ItemId) -> bool:
        """Whether what was begun is done; then its end is told."""
        if self._job is not None:
            try:
                if self._service.job(self._job).status in ACTIVE_JOB:
                    return False
            except JobNotFound:  # pruned
                self._job = None
        counts = self._service.status_counts(self._base.id, [item_id])
        if not counts.is_settled:
            return False
        self._is_working, self._job = False, None
        self._tell(self._service.item(item_id), counts)
        return True

    def _tell(self, item: Item, counts: StatusCounts) -> None:
        failed = counts.leaves.get(ItemStatus.FAILED, 0)
        done = counts.leaves.get(ItemStatus.COMPLETED, 0)
        wire = {"item_id": item.id, "status": item.status.value, "error": item.error, "counts": counts_object(counts)}
        said = f"{time.strftime('%H:%M:%S')} in step: {counted(done, 'file')}"
        if failed:
            said += f", {failed} failed"
        if item.error not in (None, CHILD_FAILED):
            said = f"{time.strftime('%H:%M:%S')} not in step: {item.error} ({detail(item.error_detail)})"
        if item.error == SourcesUnverifiable.code:  # a watch removes nothing by itself that may only be away for a moment
            said += f"; if it shall be empty: knowledge item reindex {self._base.id} {item.id} --allow-empty"
        if self._output.as_json:
            self._output.object(wire)
        else:
            self._output.line(said)
        sys.stdout.flush()

    def _say_once(self, what: str) -> None:
        if what != self._told:
            self._told = what
            self._output.hint(what)
