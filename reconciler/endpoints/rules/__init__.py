"""MLPerf Endpoints: its rules, concurrency regions, measured points and their judgement. Pure, except
``results.read_point``, which reads the folder that the official client left."""
