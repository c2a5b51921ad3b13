"""`volt stream`: the commands for streams of training data."""
