"""A client whose commands go to a service in this process, through JSON, as they would through the broker."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from knowledge import KnowledgeClient
from knowledge.errors import KnowledgeError
from knowledge.model import wire
from knowledge.service import KnowledgeService
from tasks import commands
from tests.house import House


class Near(KnowledgeClient):
    """Args:
    roots: the import roots of the house from now on.
    """

    def __init__(self, house: House, roots: Sequence[Path]) -> None:
        super().__init__("redis://127.0.0.1:1/0")
        self.house = house
        house.rt = replace(house.rt, options=replace(house.rt.options, import_roots=tuple(root.resolve() for root in roots)))
        house.service = KnowledgeService(house.rt)

    def _ask(self, operation: str, given: dict[str, Any], deadline: float) -> dict[str, Any]:
        arguments = json.loads(json.dumps(given))
        try:
            answer = {"ok": commands.answer(self.house.rt, operation, arguments)}
        except KnowledgeError as error:
            answer = {"error": wire.dump_error(error)}
        told: dict[str, Any] = json.loads(json.dumps(answer))
        return told
