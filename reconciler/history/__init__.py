"""Git history: the desired and recorded state of any commit, and the changes between two commits.

Takes commits; needs no machine, no artifact and no backend's library. Reads git's objects in batches.
"""
