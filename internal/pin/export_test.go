package pin

// Unknown and Stems are for tests of which annotations are told to be unknown.
var (
	Unknown = unknown
	Stems   = stems
)

// Remembered is how much a Gathering remembers: what waits, what was told a moment ago, and namespaces.
func (g *Gathering) Remembered() int { return len(g.piles) + len(g.told) + len(g.spaces) }
