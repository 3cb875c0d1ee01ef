"""The submission folder of MLPerf Endpoints: a curve of points for each system and model, rendered and read."""
