"""Celery shells: when work runs, and in which process. What it does is in `knowledge.ingestion`.

job.py         KnowledgeTask: claim, lease, settle; the ABANDON and RETRY option sets
*.py           one file per job
recovery.py    the beat tasks: sweep and due tick
signals.py     one runtime per process; heartbeats; parking when a child is lost; drain
"""
