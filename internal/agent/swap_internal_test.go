package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/testenv"
)

// TestAFailedReplacementHasOneText fails again and again: an error is logged and told once for each text.
func TestAFailedReplacementHasOneText(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "directory")
	if err := os.MkdirAll(filepath.Join(directory, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	absent := filepath.Join(t.TempDir(), "absent", "file")
	for name, try := range map[string]func() error{
		"no directory to write in": func() error { _, err := writeTemp(absent, nil, 0o600); return err },
		"a directory in the way":   func() error { _, err := installFile(directory, nil, 0o600); return err },
		"no file to exchange": func() error {
			temp, err := writeTemp(directory, nil, 0o600)
			return errors.Join(err, exchange(temp, absent, nil, nil), removeTemp(temp))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var errno unix.Errno
			first, second := try(), try()
			if !errors.As(first, &errno) || first.Error() != second.Error() || strings.Contains(first.Error(), ".limpet") {
				t.Errorf("%v, then %v", first, second)
			}
		})
	}
}

// TestAFailedPatchCounts has an owner that writes at the moment of each patch: the pause of a dispute applies to such
// patches, too.
func TestAFailedPatchCounts(t *testing.T) {
	dir, now := t.TempDir(), time.Unix(10000, 0)
	a := &Agent{Config: Config{ConfDir: dir, StateDir: t.TempDir()}, metrics: newMetrics(prometheus.NewRegistry())}
	path := filepath.Join(dir, "10-pods.conflist")
	if err := os.WriteFile(path, []byte("of the owner"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := plan.AdoptDecision{Patched: []byte("patched"), Records: []plan.Adopted{{Name: "10-pods.conflist"}}}
	for i := range 3 {
		in := plan.AdoptInput{First: &plan.ConfigFile{Name: "10-pods.conflist", Data: []byte("as it was read")}, Patches: recent(a.patches, now)}
		if err := a.applyAdoption(in, d, now); !errors.Is(err, errChanged) || len(a.patches) != i+1 {
			t.Errorf("%d patches count, error %v", len(a.patches), err)
		}
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "of the owner" {
		t.Errorf("the file is %q, %v", data, err)
	}
}

// TestTheLastOfManyChangesStays has an owner that writes before an exchange and again before it is undone. A pipe stands
// for the first change: its reader waits for the owner.
func TestTheLastOfManyChangesStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "10-pods.conflist")
	temp, err := writeTemp(path, []byte("patched"), 0o600)
	pipe, last := path+".pipe", path+".last"
	if err := errors.Join(err, unix.Mkfifo(path, 0o600), os.Link(path, pipe), os.WriteFile(last, []byte("last"), 0o600)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- exchange(temp, path, []byte("patched"), []byte("as it was read")) }()
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits for the reader
	if err == nil {
		err = errors.Join(os.Rename(last, path), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error {
		if w, err := os.OpenFile(pipe, os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil { // the pipe has a reader again
			_ = w.Close()
		}
		select {
		case err = <-done:
			return nil
		default:
			return errors.New("the exchange has not ended")
		}
	})
	if !errors.Is(err, errChanged) {
		t.Errorf("the exchange ends with %v", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "last" {
		t.Errorf("the file is %q, %v", data, err)
	}
}
