"""What every `Locks` must do. A subclass provides `locks` and `others` (a second handle, as another process has)."""

import threading

import pytest

from knowledge.errors import BaseBusy
from knowledge.locks.port import Locks
from tests.waiting import PATIENCE_SECONDS

BASE = "base-1"


class LocksContract:
    """Subclass it and provide `locks`, and `others` over the same place."""

    @pytest.fixture
    def locks(self) -> Locks:
        raise NotImplementedError

    @pytest.fixture
    def others(self) -> Locks:
        raise NotImplementedError

    def test_held_base_is_busy_for_others(self, locks, others):
        """One holder at a time."""
        with locks.base(BASE), pytest.raises(BaseBusy), others.base(BASE, wait_seconds=0):
            pass

    def test_freed_base_can_be_taken(self, locks, others):
        """Leaving the block frees it, also by an error."""
        with pytest.raises(KeyError), locks.base(BASE):
            raise KeyError

        with others.base(BASE, wait_seconds=0):
            pass

    def test_bases_do_not_disturb_each_other(self, locks, others):
        """Each base has a lock of its own."""
        with locks.base(BASE), others.base("base-2", wait_seconds=0):
            pass

    def test_same_thread_cannot_take_it_twice(self, locks):
        """Waiting for oneself is a mistake in the program and said at once."""
        with locks.base(BASE), pytest.raises(RuntimeError), locks.base(BASE):
            pass

    def test_thread_cannot_join_another_threads_hold(self, locks):
        """Threads of one process exclude each other like processes do."""
        refused = []

        def intrude():
            try:
                with locks.base(BASE, wait_seconds=0):
                    pass
            except BaseBusy as error:
                refused.append(error)

        with locks.base(BASE):
            thread = threading.Thread(target=intrude)
            thread.start()
            thread.join()

        assert 1 == len(refused)

    def test_waiter_gets_it_when_the_holder_leaves(self, locks, others):
        """A waiter goes on as soon as it may."""
        waiting, got = threading.Event(), threading.Event()

        def wait():
            waiting.set()
            with others.base(BASE, wait_seconds=PATIENCE_SECONDS):
                got.set()

        with locks.base(BASE):
            thread = threading.Thread(target=wait)
            thread.start()
            waiting.wait(PATIENCE_SECONDS)
            assert not got.is_set()

        thread.join(PATIENCE_SECONDS)
        assert got.is_set()

    def test_single_flight_lets_one_in_and_never_waits(self, locks, others):
        """The second is told that it is not the only one."""
        with locks.single_flight("sweep") as first, others.single_flight("sweep") as second, others.single_flight("x") as third:
            flights = (first, second, third)

        with others.single_flight("sweep") as again:
            assert ((True, False, True), True) == (flights, again)

    def test_forgotten_base_can_be_taken_again(self, locks, others):
        """Forgetting leaves nothing behind that could block; forgetting twice is fine."""
        with locks.base(BASE):
            pass
        locks.forget(BASE)
        locks.forget(BASE)

        with locks.base(BASE), pytest.raises(BaseBusy), others.base(BASE, wait_seconds=0):
            pass

    def test_used_base_is_not_forgotten(self, locks, others):
        """Only an unused lock may go."""
        with locks.base(BASE), pytest.raises(BaseBusy):
            others.forget(BASE)

    def test_bases_with_a_lock_are_listed_until_it_is_forgotten(self, locks):
        """What a lock leaves behind can be found without knowing its base; single flights are no bases."""
        before = locks.base_ids()
        with locks.base(BASE), locks.single_flight("recovery"):
            pass
        after = locks.base_ids()
        locks.forget(BASE)

        assert [] == before == locks.base_ids()
        assert after in ([], [BASE])
