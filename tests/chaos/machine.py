"""The state machine: moves in random order, then peace, then the question whether everything came right."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.chaos.fate import AIMED, FINE, Fate, Kind
from tests.chaos.outside import FAILURES
from tests.chaos.sound import insist
from tests.chaos.world import MAX_BASES, MAX_ROOTS, World

NUMBER = st.integers(0, 999)
PLACES = (
    "checkpoint", "locked", "unlocked", "db.commit", "db.committed", "broker.send", "broker.sent",
    "embedder.ask", "embedder.answered", "cache.put", "cache.put:done",
    "index.rebuild_material", "index.rebuild_material:done", "index.delete_materials", "index.delete_materials:done",
    "files.stage_file:done", "files.publish", "files.publish:done", "files.sync:done", "files.discard", "files.remove",
    "files.remove:done", "file.rename", "file.remove", "file.rmdir", "file.open",
)  # fmt: skip
STEPS = st.one_of(st.integers(1, 10), st.integers(1, 30), st.integers(1, 60))
AIMED_ENDS = st.builds(Fate, st.sampled_from([Kind.KILLED, Kind.HELD_UP, Kind.FORKED]), NUMBER, st.just(AIMED))
ENDS = st.one_of(
    st.just(FINE),
    AIMED_ENDS,
    st.builds(Fate, st.sampled_from([Kind.FINE, Kind.KILLED, Kind.HELD_UP]), st.integers(1, 12)),
)
WORK_ENDS = st.one_of(
    st.just(FINE),
    AIMED_ENDS,
    st.builds(
        Fate,
        st.sampled_from([Kind.KILLED, Kind.HELD_UP, Kind.FORKED]),
        st.integers(1, 3),
        st.sampled_from(PLACES),
    ),
    st.builds(Fate, st.sampled_from([Kind.KILLED, Kind.HELD_UP]), STEPS),
    st.builds(Fate, st.sampled_from([Kind.KILLED, Kind.KILLED, Kind.FORKED]), STEPS),
)


class Installation(RuleBasedStateMachine):
    """Rare operations share a rule, so that work is done in every sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World().__enter__()
        self.ends_healed = False

    def teardown(self) -> None:
        try:
            settle(self.world)
            if self.ends_healed:
                heal(self.world)
        finally:
            self.world.__exit__(None, None, None)

    @initialize(embedder=NUMBER, kinds=st.lists(NUMBER, min_size=1, max_size=3), shared=NUMBER)
    def begin(self, embedder: int, kinds: list[int], shared: int) -> None:
        self.ends_healed = shared % 3 == 0
        for name in range(3):
            self.world.write_source(shared + name, name, shared % 12)
        self.world.create_base(embedder)
        base = self.world.bases()[0]
        self.world.add(base, [self.world.input(kind, shared) for kind in kinds], 0, None)

    # people ------------------------------------------------------------------------------------------------------------------

    @rule(
        what=st.sampled_from(["create", "patch", "enable", "enable", "restore", "import", "delete"]),
        pick=NUMBER,
        number=NUMBER,
        end=ENDS | WORK_ENDS,
    )
    def administer(self, what: str, pick: int, number: int, end: Fate) -> None:
        world, bases = self.world, self.world.bases()
        base = bases[pick % len(bases)] if bases else None
        if what in ("create", "restore", "import") and len(bases) >= MAX_BASES:
            return
        if what == "create":
            world.create_base(number, end)
        elif what == "import":
            world.import_bundle(number, end)
        elif base is None:
            return
        elif what == "patch":
            world.patch_base(base, number, end)
        elif what == "enable":
            world.enable(base, number, end)
        elif what == "restore":
            world.restore(base, number, end)
        elif len(bases) > 1:
            world.delete_base(base, end)

    @rule(pick=NUMBER, kinds=st.lists(NUMBER, min_size=1, max_size=3), shared=NUMBER, strategy=NUMBER, end=WORK_ENDS)
    def add(self, pick: int, kinds: list[int], shared: int, strategy: int, end: Fate) -> None:
        base = self.some_base(pick)
        if base and len(self.world.roots(base["id"])) < MAX_ROOTS:
            self.world.add(base, [self.world.input(kind, shared + kind) for kind in kinds], strategy, None, end)

    @rule(pick=NUMBER, key=st.sampled_from(["k1", "k2"]), shared=NUMBER, end=WORK_ENDS)
    def add_with_key(self, pick: int, key: str, shared: int, end: Fate) -> None:
        if base := self.some_base(pick):
            titled = self.world.titled_note(f"asked with {key} of {base['id']}", shared)
            self.world.add(base, [titled], 0, key, end)

    @rule(folder=NUMBER, name=NUMBER, shared=NUMBER, removed=st.booleans())
    def change_source(self, folder: int, name: int, shared: int, removed: bool) -> None:
        if removed:
            self.world.remove_source(shared)
        else:
            self.world.write_source(folder, name, shared)

    @rule(pick=NUMBER, items=st.lists(NUMBER, min_size=1, max_size=3), end=ENDS)
    def delete_items(self, pick: int, items: list[int], end: Fate) -> None:
        base = self.some_base(pick)
        if base and (rows := self.world.items(base["id"])):
            self.world.delete_items(base, [rows[number % len(rows)]["id"] for number in items], end)

    @rule(pick=NUMBER, items=st.lists(NUMBER, min_size=1, max_size=2), allow_empty=st.booleans(), end=ENDS)
    def reindex(self, pick: int, items: list[int], allow_empty: bool, end: Fate) -> None:
        base = self.some_base(pick)
        if base and (rows := self.world.items(base["id"])):
            self.world.reindex(base, [rows[number % len(rows)]["id"] for number in items], end, allow_empty=allow_empty)

    @rule(pick=NUMBER, end=ENDS)
    def reindex_interrupted(self, pick: int, end: Fate) -> None:
        if base := self.some_base(pick):
            self.world.reindex_interrupted(base, end)

    @rule(pick=NUMBER, is_cancel=st.booleans(), end=ENDS)
    def intervene(self, pick: int, is_cancel: bool, end: Fate) -> None:
        if job := self.some_job(pick):
            (self.world.cancel if is_cancel else self.world.requeue)(job, end)

    @rule(pick=NUMBER, item=NUMBER)
    def look_around(self, pick: int, item: int) -> None:
        if base := self.some_base(pick):
            rows = self.world.items(base["id"])
            self.world.look_around(base, rows[item % len(rows)] if rows else None)
            outcome = self.world.search(base, "harbour rules hour")
            if outcome.refusal is None:
                shown = {row["id"]: row["status"] for row in rows}
                hidden = [hit.item_id for hit in outcome.value.hits if shown.get(hit.item_id, "gone") in ("deleting", "gone")]
                insist(not hidden, "a search never shows what was deleted", items=hidden)

    # workers -----------------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.broker.messages)
    @rule(which=NUMBER, end=WORK_ENDS)
    def deliver(self, which: int, end: Fate) -> None:
        messages = self.world.broker.messages
        self.world.deliver(messages.pop(which % len(messages)), end)

    @precondition(lambda self: self.world.broker.messages)
    @rule(end=WORK_ENDS)
    def deliver_first(self, end: Fate) -> None:
        self.world.deliver(self.world.broker.messages.pop(0), end)

    @precondition(lambda self: self.world.broker.messages)
    @rule(count=st.integers(1, 4))
    def deliver_some(self, count: int) -> None:
        for _ in range(count):
            if self.world.broker.messages:
                self.world.deliver(self.world.broker.messages.pop(0))

    @rule(pick=NUMBER, is_active=st.booleans(), end=WORK_ENDS)
    def deliver_again(self, pick: int, is_active: bool, end: Fate) -> None:
        """A message that was doubled or comes late, for any job there ever was."""
        if job := self.some_job(pick, active_only=is_active):
            self.world.deliver(job, end)

    @rule(end=WORK_ENDS)
    def sweep(self, end: Fate) -> None:
        self.world.sweep(end)

    @rule(
        what=st.sampled_from(["tick", "tick", "notice", "boot", "drain", "renew"]),
        worker=NUMBER,
        mode=st.sampled_from(["billed", "billed", "always", "never"]),
        end=ENDS,
    )
    def upkeep(self, what: str, worker: int, mode: str, end: Fate) -> None:
        if what == "tick":
            self.world.tick(end)
        elif what == "notice":
            self.world.notice_lost_child(end)
        elif what == "boot":
            self.world.boot(worker, mode, end)
        elif what == "drain":
            self.world.drain()
        elif self.world.held:
            self.world.renew(worker)

    @precondition(lambda self: self.world.held)
    @rule(which=NUMBER, killed=st.booleans())
    def let_go(self, which: int, killed: bool) -> None:
        self.world.let_go(which, killed=killed)

    # the world ---------------------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.5, 1.5, 5.0, 35.0, 65.0, 130.0, 1000.0, 4000.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.passes(seconds)

    @rule(
        what=st.sampled_from(["lost", "doubled", "away", "back", "back", "forgets"]),
        which=NUMBER,
    )
    def broker(self, what: str, which: int) -> None:
        if what in ("lost", "doubled"):
            if self.world.broker.messages:
                self.world.broker_errs(which, doubled=what == "doubled")
        elif what == "forgets":
            self.world.broker_forgets()
        else:
            self.world.broker_goes(away=what == "away")

    @rule(failures=st.lists(st.sampled_from(sorted(FAILURES)), max_size=3))
    def embedder_fails(self, failures: list[str]) -> None:
        self.world.embedder_fails(failures)

    @invariant()
    def holds(self) -> None:
        self.world.ledger.look()

    # picking -----------------------------------------------------------------------------------------------------------------

    def some_base(self, pick: int) -> Any | None:
        bases = self.world.bases()
        return bases[pick % len(bases)] if bases else None

    def some_job(self, pick: int, *, active_only: bool = True) -> str | None:
        where = "WHERE status IN ('pending', 'running')" if active_only else ""
        rows = self.world.ask(f"SELECT id FROM knowledge_job {where} ORDER BY id")
        return rows[pick % len(rows)]["id"] if rows else None


def settle(world: World) -> None:
    """Peace: nothing fails any more, everybody comes to an end, and the sweep has its time. Then everything must be right."""
    world.embedder_fails([])
    world.broker_goes(away=False)
    while world.held:
        world.let_go(0)
        world.ledger.look()
    world.come_to_rest(seconds=1000)
    for _ in range(2):  # what nobody names is removed when it is an hour old, what was to be placed after a day
        world.passes(90_000)
        world.sweep()
        world.tidy()
    world.ledger.look()
    world.ledger.settled()


def heal(world: World) -> None:
    """After peace, whatever failed can be made good: indexed again, everything whose source is there is completed and right."""
    for base in world.bases():
        if base["status"] == "completed":
            world.make_good(base)
    world.ledger.look()
    world.ledger.settled()
