"""Any submission tree on disk as frozen values, read when asked for: takes a path, gives submitters, cells, logs.

A file that is missing, broken or too large is a value that says so; nothing here raises over what a tree contains.
"""
