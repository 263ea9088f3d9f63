package pin

// Misspelt and SuspectParts are for tests of what counts as misspelt.
var (
	Misspelt     = misspelt
	SuspectParts = suspectParts
)

// Remembered is how much a Gathering remembers: what waits, what was told a moment ago, and namespaces.
func (g *Gathering) Remembered() int { return len(g.piles) + len(g.told) + len(g.spaces) }
