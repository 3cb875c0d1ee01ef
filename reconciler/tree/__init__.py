"""The submission tree as a pure function: takes a submission's values and a ruleset, returns paths and their content.

Content in storage is referred to by digest and never read. Must not write to disk or use the clock, host name,
environment or git.
"""
