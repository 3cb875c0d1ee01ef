"""Spec x ruleset -> desired resources with their keys, and the checks that need the rules.

Takes a ``Declared`` submission, a ruleset and pins (source digests, backend versions); gives a ``Desired`` state.
Each kind has one pure function in ``inputs.py`` that names its identity inputs: what a spec field affects is
derived from those functions.
"""
