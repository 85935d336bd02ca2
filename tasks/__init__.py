"""Celery shells: when work runs, and in which process. What it does is in `knowledge.ingestion`.

job.py         KnowledgeTask: claim, lease, settle; the ABANDON and RETRY option sets
lease.py       the thread that keeps the lease of the job in this process
process.py     one runtime per process
…_….py         one file per job
commands.py    the requests of clients
memory.py      a memory limit that no process could keep is refused at the start
recovery.py    the beat tasks: sweep, due tick and tidying
heartbeat.py   the main process tells that it lives
signals.py     start, drain, stop, and the loss of a child
"""
