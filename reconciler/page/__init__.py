"""The page: the `--json` reports and the progress of passes in a browser, served or written as files.

``Site`` turns the documents of a ``PageSource`` into HTML; ``RepositoryPage`` is the source that reads a repository, as
the commands do. It takes no lock and writes nothing but an export.
"""
