"""The page: the `--json` reports and the progress of passes in a browser, served or written as files.

``RepositoryPage`` reads a repository as the commands do; ``Site`` turns its documents into HTML. The page takes no lock
and writes nothing but an export.
"""
