"""Render values as text for people and JSON for programs. Takes the results of stages; decides, reads and writes
nothing."""
