"""What may happen to the lines of a batch: change, filter, join, choose, encode."""
