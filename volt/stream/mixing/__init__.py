"""Choose the source of each sample: shares, exact to one sample, and their schedules."""
