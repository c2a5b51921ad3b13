"""Read shards as blocks of lines, in an order that follows from a seed; handle unfit lines."""
