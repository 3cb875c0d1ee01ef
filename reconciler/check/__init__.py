"""The submission rules as a table of small functions: takes a tree on disk and a round, returns findings.

It includes every check of both official submission checkers, uses the newer one's tables, and is stricter where they
miss errors. It must not write, start processes, or refer to a round or a benchmark by its name.
"""
