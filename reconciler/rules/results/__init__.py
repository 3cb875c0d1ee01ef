"""What a run leaves, and how it is judged, scored, kept and audited: LoadGen's logs, or results of the endpoints
harness. One module per format, behind one protocol. No clock, no processes; all that is known comes from the files."""
