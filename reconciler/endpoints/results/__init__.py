"""Results of the client: the output of a run, as a result of a round and as a point of a curve."""
