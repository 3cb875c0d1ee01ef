"""One pass: look, plan, execute, record, render, and look again until nothing differs.

Takes what was asked for; gives a report of what was done. ``run`` is the pipeline; what it decides on, does, records
and logs is in a module each. Must not know who asked, nor how anything is shown.
"""
