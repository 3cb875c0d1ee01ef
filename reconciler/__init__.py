"""The MLPerf Inference reconciler: makes a submission tree match a declared submission spec.

Read ``reconcile/run.py`` first: one pass. ``docs/architecture.md`` says what each folder here is for.
"""

__version__ = "1.0.0"
