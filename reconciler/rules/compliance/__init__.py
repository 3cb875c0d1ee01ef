"""Verdicts of the compliance tests. Pure functions from parsed logs to a verdict with the text of its verify files.

Each test is one module that declares which files it reads and publishes, and how it is judged; ``judging.py`` lists
them. When an official verification script would stop with a traceback, the verdict here is a failure with a reason.
"""
