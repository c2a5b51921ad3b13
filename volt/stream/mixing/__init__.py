"""Which source gives which sample: shares, exact to one sample, and their schedules."""
