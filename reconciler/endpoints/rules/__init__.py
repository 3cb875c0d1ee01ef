"""The rules of MLPerf Endpoints: concurrency regions, measured points and their judgement. Pure."""
