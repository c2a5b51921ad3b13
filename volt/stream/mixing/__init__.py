"""Choose the source of each sample by shares, exact to one sample; shares may follow schedules."""
