"""Vocabulary shared by every layer; pure values, no I/O."""
