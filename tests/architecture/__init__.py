"""The rules of structure, as tables (``rules.py``), and the tests that prove them on the source text."""
