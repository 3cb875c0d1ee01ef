"""The page: what `--json` prints and what passes count, for a browser; served, or written as files.

``Site`` makes HTML of the documents of a ``PageSource``; ``RepositoryPage`` is the source that reads a repository, as
the commands do. It takes no lock and writes nothing but an export.
"""
