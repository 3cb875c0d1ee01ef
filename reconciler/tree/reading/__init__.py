"""Any submission tree on disk as frozen values, read on demand: takes a path, returns submitters, cells, logs.

A missing, broken or too large file is a value that describes the problem; no content of a tree raises an exception.
"""
