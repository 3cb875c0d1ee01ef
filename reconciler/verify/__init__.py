"""Contradictions inside a submission tree that anyone made: takes a tree on disk, gives findings with both places.

The detail log says what really ran; all else is compared with it. Must not write, and knows no benchmark by name.
"""
