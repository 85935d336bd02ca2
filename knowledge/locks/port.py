"""The base lock: serialises changes that span rows, index and files of one base. See deploy/decisions/base-lock.md."""

from contextlib import AbstractContextManager
from typing import Protocol


class Locks(Protocol):
    def base(self, base_id: str, *, wait_seconds: float | None = None) -> AbstractContextManager[None]:
        """Hold the lock of one base; not re-entrant; freed by the system when its holder dies.

        Args:
            wait_seconds: None means the configured wait; 0 means do not wait.

        Raises:
            BaseBusy: another holder did not let go in time. StorageFull, StorageFailed: no lock file can be made.
        """
        ...

    def single_flight(self, name: str) -> AbstractContextManager[bool]:
        """True inside if this process is the only one doing `name`; False, without waiting, if another is."""
        ...

    def base_ids(self) -> list[str]:
        """Bases whose lock has left something behind, whether or not they still exist."""
        ...

    def forget(self, base_id: str) -> None:
        """Remove what the lock of a base that is gone has left behind."""
        ...
