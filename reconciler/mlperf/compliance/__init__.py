"""Verdicts of the compliance tests, pure: parsed logs in, a verdict with the text of its verify files out.

One module per test; ``judging.py`` lists them and says what each one reads. ``settings.py`` writes ``audit.config``.
Where an official verification script stops with a traceback, the verdict here is a failure that says why.
"""
