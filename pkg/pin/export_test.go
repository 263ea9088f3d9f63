package pin

// Misspelt and SuspectParts are for tests of what counts as misspelt.
var (
	Misspelt     = misspelt
	SuspectParts = suspectParts
)
