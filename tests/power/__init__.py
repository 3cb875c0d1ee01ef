"""Stand-ins for MLCommons' power kit and for its server next to an analyzer, on the loopback interface."""
