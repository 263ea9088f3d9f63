package persistence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
)

// FollowsFile is the file beside the state that says in which network addresses follow their pods. The agent writes it; where
// Limpet is the network there is none.
const FollowsFile = "limpet.follows"

// Follows is the content of the FollowsFile.
type Follows struct {
	// Network is the network in which the agent lends and borrows addresses; "" for none.
	Network string `json:"network"`
	// Bridge is the name of its bridge, or of the interface on the segment that nodes share; the agent reads it again.
	Bridge string `json:"bridge,omitempty"`
	// Node is the name of the node.
	Node string `json:"node"`
	// Ranges are those of which the state has all loans.
	Ranges []netip.Prefix `json:"ranges"`
}

// ReadFollows reads the FollowsFile of a directory, or of the default one. Without the file the network is "".
func ReadFollows(dir string) (f Follows, err error) {
	if dir == "" {
		dir = DefaultDir
	}
	data, err := os.ReadFile(filepath.Join(dir, FollowsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil {
		return Follows{}, fmt.Errorf("read in which network addresses follow their pods: %w", err)
	}
	return f, nil
}
