"""The rules of MLPerf Endpoints: concurrency regions, measured points and their judgement. Pure, except for
``results.read_point``, which reads the official client's folder."""
