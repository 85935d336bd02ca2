"""Exchange, queues and routing keys, shared by whoever sends and whoever works.

One topic exchange. No routing key reaches two queues. A shard is a set of workers that see the same files; the base says which.

    routing key                          queue
    base.<shard>.<base id>.index         knowledge.<shard>
    base.<shard>.<base id>.control       knowledge.<shard>.control
    command.<shard>                      knowledge.<shard>.commands
    upkeep                               knowledge.upkeep
"""

from typing import Final

from kombu import Exchange, Queue

from knowledge.model.ids import BaseId
from knowledge.model.jobs import Job, Track

EXCHANGE: Final = Exchange("knowledge", type="topic", durable=True)

RECOVERY: Final = "knowledge.recovery"  #: beat task: the sweep
DUE_TICK: Final = "knowledge.due-tick"  #: beat task: publishes what has become due
TIDY: Final = "knowledge.tidy"  #: beat task: removes bytes that no row names, wipes what was deleted
UPKEEP_KEY: Final = "upkeep"
UPKEEP_QUEUE: Final = "knowledge.upkeep"


def index_queue(shard: str) -> str:
    return f"knowledge.{shard}"


def control_queue(shard: str) -> str:
    return f"knowledge.{shard}.control"


def commands_queue(shard: str) -> str:
    return f"knowledge.{shard}.commands"


def queues(shard: str) -> list[Queue]:
    """Every queue of one shard, bound, to be declared by workers and with every publish."""
    return [
        Queue(index_queue(shard), EXCHANGE, routing_key=f"base.{shard}.*.{Track.INDEX}", durable=True),
        Queue(control_queue(shard), EXCHANGE, routing_key=f"base.{shard}.*.{Track.CONTROL}", durable=True),
        Queue(commands_queue(shard), EXCHANGE, routing_key=commands_key(shard), durable=True),
        Queue(UPKEEP_QUEUE, EXCHANGE, routing_key=UPKEEP_KEY, durable=True),
    ]


def routing_key(shard: str, base_id: BaseId, track: Track) -> str:
    return f"base.{shard}.{base_id}.{track}"


def commands_key(shard: str) -> str:
    return f"command.{shard}"


def commands_queue_of(shard: str) -> Queue:
    return queues(shard)[2]


def queue_for(job: Job) -> Queue:
    """The one queue that a job's message reaches."""
    index, control, _, _ = queues(job.shard)
    return index if job.kind.track is Track.INDEX else control
