"""Finding the target: the settings at which a cell does best and is still VALID, from runs that never become results.

Takes a cell and what may be changed of it; gives trials, each recorded as evidence, and in the end an estimate with its
margin. ``search`` and ``choice`` decide purely which trial comes next, from those that were made: a search that was
killed goes on from its records. Must not touch a spec, a published record or the tree.
"""
