package hostlocal

import "path/filepath"

// DefaultDataDir holds the directories of all networks unless host-local's dataDir says
// otherwise.
const DefaultDataDir = "/var/lib/cni/networks"

// Root returns the directory that holds host-local's directories of all networks: the dataDir
// of the network configuration, or host-local's own default without one.
func Root(dataDir string) string {
	if dataDir == "" {
		return DefaultDataDir
	}
	return filepath.Clean(dataDir)
}

// Roots returns the directories that may be the Root of a network whose state is in stateDir.
// The configuration may have named the default directory of the state, or nothing.
func Roots(stateDir, defaultStateDir string) []string {
	roots := []string{Root(stateDir)}
	if roots[0] == defaultStateDir {
		roots = append(roots, DefaultDataDir)
	}
	return roots
}

// Of returns the directory of a network under a configured dataDir; "" is none.
func Of(dataDir, network string) Dir { return New(filepath.Join(Root(dataDir), network)) }

// ForkOf returns the records of the fork under a configured dataDir; "" is none.
func ForkOf(dataDir string) ForkRecords {
	return NewForkRecords(filepath.Join(Root(dataDir), ForkDir))
}

// ForkDir is the fork's directory beside those of the networks.
const ForkDir = "reserved"
