"""The MLPerf Inference reconciler: makes a submission tree match a declared submission spec.

Read ``reconcile.py`` first: one pass, in the order of the folders here.
"""

__version__ = "0.1.0"
