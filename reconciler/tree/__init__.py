"""The submission tree as a pure function: takes a submission's values and a ruleset, gives paths and their content.

Content that is in storage is named by digest, never read. Must not write to disk, and must not look at a clock, a
host name, the environment or git.
"""
