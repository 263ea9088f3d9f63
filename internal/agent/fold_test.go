package agent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/persistence"
)

// TestTheAgentFolds has a journal of half the length at which a verb would fold.
func TestTheAgentFolds(t *testing.T) {
	n := newNode(t, "folds")
	n.update(t, func(*persistence.Tx) error { return nil })
	last := func() os.FileInfo {
		info, err := os.Stat(filepath.Join(n.StateDir, "limpet.journal.last"))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	before := last()
	n.start(t)
	n.metricIs(t, violationsOf+"file", 0) // after a first round
	n.update(t, func(tx *persistence.Tx) error {
		data, err := json.Marshal(sets(t))
		return errors.Join(err, tx.SetConfig("net", append(data, bytes.Repeat([]byte(" "), 40<<10)...)))
	})
	testenv.Eventually(t, func() error {
		if os.SameFile(before, last()) {
			return errors.New("the agent has not folded")
		}
		return nil
	})
}
