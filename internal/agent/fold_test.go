package agent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
	path := filepath.Join(n.StateDir, "limpet.journal.last")
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	n.start(t)
	n.metricIs(t, violationsOf+"file", 0) // after a first round
	n.update(t, func(tx *persistence.Tx) error {
		data, err := json.Marshal(sets(t))
		return errors.Join(err, tx.SetConfig("net", append(data, bytes.Repeat([]byte(" "), 40<<10)...)))
	})
	testenv.Eventually(t, func() error {
		if last, err := os.Stat(path); err != nil || os.SameFile(before, last) { // a fold takes the name away for a moment
			return fmt.Errorf("the agent has not folded: %w", err)
		}
		return nil
	})
}
