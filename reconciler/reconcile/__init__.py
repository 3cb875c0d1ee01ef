"""One pass: plan, execute, record and render, repeated until nothing differs.

It takes a request and returns a report. ``run`` is the pipeline; separate modules decide, act, record and log. It must
not know the caller, or how results are shown.
"""
