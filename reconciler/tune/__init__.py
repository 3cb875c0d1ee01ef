"""Find the target: the settings at which a cell performs best and is still VALID, from runs that never become results.

Takes a cell and the settings that may change; records each trial as evidence, and returns an estimate with its margin.
``search`` and ``choice`` choose the next trial purely from the earlier ones, so a search that was killed resumes from
its records. Must not touch a spec, a published record or the tree.
"""
