"""Starts, watches and stops the processes of one data directory on one host."""
