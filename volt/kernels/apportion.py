"""Whose turn it is: the compiled loop of `volt.stream.mixing.mixture`.

A source's j-th sample may come once more than j − 1 samples are owed to it, and must come before more than j are; of
the sources whose next sample may come, the one that must come first is served (earliest deadline first). A fractional
plan that meets all these windows exists, the shares themselves, so a whole one does, and this rule finds it
(R. Tijdeman, The chairman assignment problem, 1980): no count is ever off by a whole sample.
"""

import numpy as np

from volt.kernels.arrays import LongArray
from volt.kernels.compiling import compiled, loop

NEVER = 1 << 62


@loop
def apportion(lags: LongArray, units: LongArray, lengths: LongArray, turns: LongArray, whole: int) -> None:
    """Fill `turns` with the sources of the next samples and move `lags` on.

    lags: (n_sources,) int64, what each source is owed and has not got, in units
    units: (n_stretches, n_sources) int64, the share of each source in a sample
    lengths: (n_stretches,) int64, how many samples each stretch lasts
    turns: (n_samples,) int64, is written
    whole: the units of one sample
    """
    deadlines = np.full(len(lags), -1)
    stretch, left = 0, lengths[0]
    for sample in range(len(turns)):
        while left == 0:
            stretch += 1
            left = lengths[stretch]
        chosen = -1
        for source in range(len(lags)):
            lags[source] += units[stretch, source]
            if lags[source] > 0:
                if deadlines[source] < 0:
                    wait = samples_until(whole - lags[source], units, lengths, source, stretch, left)
                    deadlines[source] = min(sample + wait, NEVER)  # so that sources without one stay equal
                if chosen < 0 or deadlines[source] < deadlines[chosen]:
                    chosen = source
        turns[sample] = chosen
        lags[chosen] -= whole
        deadlines[chosen] = -1
        left -= 1


@compiled
def samples_until(need: int, units: LongArray, lengths: LongArray, source: int, stretch: int, left: int) -> int:
    """How many more samples pass until a source is owed `need` more units; `left` counts the current sample too."""
    samples, left = 0, left - 1
    while need > 0:
        share = units[stretch, source]
        if share > 0:
            steps = (need + share - 1) // share
            if steps <= left:
                return int(samples + steps)
            need -= share * left
        samples += left
        stretch += 1
        if stretch == len(lengths):
            return NEVER
        left = lengths[stretch]
    return int(samples)
