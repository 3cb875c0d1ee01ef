"""The submission rules as a table of small functions: takes a tree on disk and a round, gives findings.

All checks of both official submission checkers on the newer one's tables, and stricter where they let errors through.
Must not write, start processes, or know a round or a benchmark by its name.
"""
