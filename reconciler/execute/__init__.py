"""Walks a plan and yields one Outcome at a time: one executor per kind, each a child process with a request and a
result file."""
