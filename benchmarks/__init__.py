"""rankfall side by side with what a user would write instead: `python -m benchmarks [names...]`."""
