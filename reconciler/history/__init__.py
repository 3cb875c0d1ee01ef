"""What git knows: the desired and recorded state of any commit, and what is between two of them.

Takes commits; needs no machine, no artifact and no library of a backend. Reads git's objects in batches.
"""
