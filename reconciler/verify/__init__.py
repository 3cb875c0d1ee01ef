"""Contradictions in any submission tree: takes a tree on disk, returns findings with both places.

The detail log shows what really ran; everything else is compared with it. Must not write or refer to a benchmark by
name.
"""
