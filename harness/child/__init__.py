"""Processes: groups, output, progress, and how a child ends with its parent."""
