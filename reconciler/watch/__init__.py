"""Watch mode: events decide when to pass, never what a pass does.

Source (changes on disk) → predicate (does it matter) → queue (debounced) → loop (plan, then pass over the steps that
are due). Takes the options of a pass and of the watch; reports in lines and events; makes none of a pass's decisions.
"""
