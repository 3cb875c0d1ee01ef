"""The page: what `--json` prints and what passes count, for a browser; served, or written as files.

Takes documents from a ``PageSource``; gives HTML. It takes no lock, writes nothing but an export, and knows no stage.
"""
