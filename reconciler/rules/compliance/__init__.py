"""Verdicts of the compliance tests, pure: parsed logs in, a verdict with the text of its verify files out.

A test is one module that declares what it reads and shows, and judges; ``judging.py`` lists them. Where an official
verification script stops with a traceback, the verdict here is a failure that says why.
"""
