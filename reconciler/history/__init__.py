"""Knowledge of git: the desired and recorded state of any commit, and the changes between two of them.

Takes commits; needs no machine, no artifact and no library of a backend. Reads git's objects in batches.
"""
