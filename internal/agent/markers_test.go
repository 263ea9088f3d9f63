package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/persistence"
)

// TestMarkersOfKilledADDsAreRemoved checks that only empty files older than an hour go: an
// ADD that still waits needs its marker, and other files are not Limpet's.
func TestMarkersOfKilledADDsAreRemoved(t *testing.T) {
	n := newNode(t, "pending")
	dir := filepath.Join(n.StateDir, persistence.PendingDir)
	for _, file := range []struct {
		name, text string
		age        time.Duration
	}{
		{name: "net-killed-eth0", age: 61 * time.Minute},
		{name: "net-killed-eth1", age: 48 * time.Hour},
		{name: "net-waits-eth0", age: 59 * time.Minute},
		{name: "net-waits-over-a-step-of-the-clock", age: 48 * time.Hour},
		{name: "notes", text: "mine", age: 48 * time.Hour},
	} {
		path, then := filepath.Join(dir, file.name), time.Now().Add(-file.age)
		n.write(t, path, file.text)
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
	}
	waits, err := os.Open(filepath.Join(dir, "net-waits-over-a-step-of-the-clock"))
	if err == nil {
		defer func() { _ = waits.Close() }()
		err = unix.Flock(int(waits.Fd()), unix.LOCK_SH)
	}
	if err != nil {
		t.Fatal(err)
	}
	n.start(t)
	testenv.Eventually(t, func() error {
		entries, err := os.ReadDir(dir)
		var left []string
		for _, e := range entries {
			left = append(left, e.Name())
		}
		if want := []string{"net-waits-eth0", "net-waits-over-a-step-of-the-clock", "notes"}; err != nil || !slices.Equal(left, want) {
			return fmt.Errorf("left %v, %w", left, err)
		}
		return nil
	})
}
