"""One thin module per command: each command composes its stages in one function and returns its exit code."""
