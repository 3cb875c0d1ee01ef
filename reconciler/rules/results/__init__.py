"""Formats of a run's results (LoadGen logs, endpoints harness results), and how they are judged, scored, kept and
audited. One module per format, with one protocol. Pure: no clock, no processes; all facts come from the files."""
