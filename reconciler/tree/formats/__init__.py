"""How a scenario folder is checked, verified and measured, by the format of the results that it shows: one module for
each behind one protocol. Which format that is, ``reconciler.rules.results`` decides. Must not write.
"""
