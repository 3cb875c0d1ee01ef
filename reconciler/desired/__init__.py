"""Compile a spec and a ruleset into desired resources with their keys, and run the checks that need the rules.

Input: a ``Declared`` submission, a ruleset and pins (source digests, backend versions). Output: a ``Desired`` state.
Each kind has one pure function in ``inputs.py`` that lists its identity inputs; the effect of each spec field is
derived from those functions.
"""
