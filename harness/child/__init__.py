"""Processes: their groups, output and progress, and how a child ends together with its parent."""
