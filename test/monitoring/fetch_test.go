package monitoring_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/test/monitoring"
)

// A cache that has the programs is used without apt-get, dpkg-deb or a network. One that has a
// part of them is not used.
func TestASecondRunNeedsNoNetwork(t *testing.T) {
	cache := t.TempDir()
	bin := filepath.Join(cache, "prometheus", "usr", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	for i, name := range []string{"prometheus", "promtool"} {
		if _, err := monitoring.Fetch(t.Context(), cache); err == nil {
			t.Errorf("a cache with %d of 2 programs was used", i)
		}
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := monitoring.Fetch(t.Context(), cache); err != nil {
		t.Error(err)
	}
}

func TestTheFetchedProgramsStart(t *testing.T) {
	for _, path := range []string{prometheus.Prometheus, prometheus.Promtool} {
		if out, err := exec.CommandContext(t.Context(), path, "--version").CombinedOutput(); err != nil || !strings.Contains(string(out), "version 2.") {
			t.Errorf("%s --version: %v\n%s", path, err, out)
		}
	}
}
