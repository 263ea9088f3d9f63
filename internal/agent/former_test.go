package agent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/agent"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// exists returns an error unless a file of the state is there, or is not.
func (n *node) exists(name string, want bool) error {
	_, err := os.Stat(filepath.Join(n.StateDir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) || (err == nil) != want {
		return fmt.Errorf("%s: %w, want it: %t", name, err, want)
	}
	return nil
}

// TestTheStateOfAFormerPluginWaitsForTheNewOne has a plugin that cannot be installed beside a state of before the journal,
// in which a reservation has lapsed. The former plugin still serves the pods, and would refuse a state with a journal.
func TestTheStateOfAFormerPluginWaitsForTheNewOne(t *testing.T) {
	n := newNode(t, "former")
	n.attach(t, "default", "web-0", "u0", n.liveNetNS(), 0)
	lapsed := n.Now()
	lapsed.Wall, lapsed.Up, lapsed.BootID = lapsed.Wall.Add(-time.Hour), 0, "an earlier boot"
	n.update(t, func(tx *persistence.Tx) error {
		return tx.PutReservation(reservation.Reservation{
			Owner: reservation.Owner{Network: "net", Namespace: "default", Pod: "web-1", IfName: "eth0"}, UID: "u1", ContainerID: "c-web-1",
			Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.5")}, Deadline: reservation.Deadline{From: lapsed, For: time.Minute}, Retain: time.Minute, Seq: 9,
		})
	})
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
	n.stateIs(t, map[string]string{"web-0": "attached, retain 10m0s"})
	if err := n.exists("limpet.journal", true); err != nil {
		t.Error(err)
	}
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

// TestUninstallLeavesTheStateToAFormerPlugin has a pod that needs the former plugin for its DEL.
func TestUninstallLeavesTheStateToAFormerPlugin(t *testing.T) {
	inNetNS(t)
	n := newNode(t, "former-uninstall")
	n.attach(t, "default", "web-0", "u0", n.liveNetNS(), 0)
	if err := n.store.Downgrade(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := agent.Uninstall(t.Context(), n.Config); err == nil || !strings.Contains(err.Error(), "still attached") {
		t.Errorf("uninstall with a pod: %v", err)
	}
	if err := n.exists("limpet.journal", false); err != nil {
		t.Error(err)
	}
}
