package agent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/persistence"
)

// exists returns an error unless a file of the state is there, or is not.
func (n *node) exists(name string, want bool) error {
	_, err := os.Stat(filepath.Join(n.StateDir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) || (err == nil) != want {
		return fmt.Errorf("%s: %w, want it: %t", name, err, want)
	}
	return nil
}

// TestTheStateOfAFormerPluginWaitsForTheNewOne has a plugin that cannot be installed beside a state of before the journal.
// The former plugin still serves the pods, and would refuse a state with a journal.
func TestTheStateOfAFormerPluginWaitsForTheNewOne(t *testing.T) {
	n := newNode(t, "former")
	n.attach(t, "default", "web-0", "u0", n.liveNetNS(), 0)
	if err := n.store.Downgrade(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.write(t, n.PluginFile, "#!/bin/sh\nexit 1\n")
	n.start(t)
	testenv.Eventually(t, func() error { // each round tries again
		if failed, _ := n.metric(t, "limpet_agent_failures_total install"); failed < 3 {
			return fmt.Errorf("failed %v times", failed)
		}
		return nil
	})
	if err := n.exists("limpet.journal", false); err != nil {
		t.Fatal(err)
	}
	n.write(t, n.PluginFile, plugin)
	testenv.Eventually(t, func() error { return n.exists("limpet.journal", true) })
	n.stateIs(t, map[string]string{"web-0": "attached, retain 10m0s"})
}

// TestTheAgentFolds has a journal of half the length at which a verb would fold.
func TestTheAgentFolds(t *testing.T) {
	n := newNode(t, "folds")
	n.start(t)
	n.metricIs(t, violationsOf+"file", 0) // after a first round
	if err := n.exists("limpet.journal.last", false); err != nil {
		t.Fatal(err)
	}
	n.update(t, func(tx *persistence.Tx) error {
		data, err := json.Marshal(sets(t))
		return errors.Join(err, tx.SetConfig("net", append(data, bytes.Repeat([]byte(" "), 40<<10)...)))
	})
	if err := n.exists("limpet.journal.last", false); err != nil { // the verb has not
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error { return n.exists("limpet.journal.last", true) })
}
