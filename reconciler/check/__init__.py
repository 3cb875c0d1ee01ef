"""The submission rules as a table of small functions: takes a tree on disk and a round, returns findings.

Includes all checks of both official submission checkers, with the newer one's tables, and is stricter if they miss
errors. Must not write, start processes, or refer to a round or a benchmark by its name.
"""
