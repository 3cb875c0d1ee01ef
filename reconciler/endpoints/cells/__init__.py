"""Results of the client in a scenario folder of MLPerf Inference: rendering, rules, contradictions."""
