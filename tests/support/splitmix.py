"""SplitMix64, the random generator of compiled loops, in Python's whole numbers, for naive twins."""

MASK = (1 << 64) - 1


class Drawn:
    """SplitMix64."""

    def __init__(self, state):
        self.state = state

    def bits(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        return mixed(self.state)

    def fraction(self):
        return (self.bits() >> 11) / (1 << 53)

    def below(self, n):
        """Return a whole number from 0 to n − 1."""
        return (self.bits() >> 32) * n >> 32


def mixed(word):
    """Return the finaliser of SplitMix64."""
    word = ((word ^ word >> 30) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ word >> 27) * 0x94D049BB133111EB) & MASK
    return word ^ word >> 31
