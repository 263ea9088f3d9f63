package preflight

// What the tests look at.
var (
	Release     = release
	EnoughSpace = space
)
