"""Watch mode: events decide when to pass, never what a pass does.

Source (what happened on disk) → predicate (does it matter) → queue (debounced) → loop (look; pass over what is due).
Takes the options of a pass and of watching; reports in lines and events; decides nothing that a pass decides.
"""
