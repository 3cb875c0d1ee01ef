"""Formats of a run's results, and how they are judged, scored, kept and audited: LoadGen's logs, or results of the
endpoints harness. One module per format, behind one protocol. No clock, no processes; all that is known comes from the
files."""
