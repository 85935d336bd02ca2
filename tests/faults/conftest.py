"""One fleet for each module, whole again before each test; its logs are shown when a test fails."""

from collections.abc import Iterator

import pytest

from knowledge.model.views import Base
from tests.faults.gates import Gate, Moment
from tests.fleet import Fleet

APPLICATION = "tests.faults.app"


@pytest.fixture(scope="module")
def running_fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Started with the environment variables in the module's `SETTINGS`; its embedder has the module's `EMBEDDER_SECONDS`."""
    fleet = Fleet(
        tmp_path_factory.mktemp("fleet") / "root",
        application=APPLICATION,
        settings=getattr(request.module, "SETTINGS", {}),
        embedder_seconds=getattr(request.module, "EMBEDDER_SECONDS", 300.0),
    )
    try:
        fleet.start()
        yield fleet
    finally:
        fleet.stop()


@pytest.fixture
def fleet(running_fleet: Fleet, request: pytest.FixtureRequest) -> Fleet:
    running_fleet.renew()
    request.node.stash[_FLEET] = running_fleet
    return running_fleet


@pytest.fixture
def base(fleet: Fleet) -> Base:
    """A base with the paid embedder."""
    return fleet.new_base()


@pytest.fixture
def gate(fleet: Fleet):
    """Makes the gate of a moment."""

    def gate(moment: Moment) -> Gate:
        return Gate(fleet.gates, moment)

    return gate


_FLEET = pytest.StashKey[Fleet]()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    outcome = yield
    report = outcome.get_result()
    fleet = item.stash.get(_FLEET, None)
    if report.failed and fleet is not None:
        for name in ("index", "control", "beat", "broker", "embedder"):
            report.sections.append((f"end of the log of {name}", fleet.tail(name)))
