"""Results of the Endpoints client in MLPerf Inference submissions: rendering, rules and contradictions."""
