package cluster_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/test/cluster/cluster"
)

func TestOnlyControllersThatWereNotHandedDownAreNoted(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{"cgroup.controllers": "cpuset cpu memory pids\n", "cgroup.subtree_control": "cpu memory\n"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lent := filepath.Join(dir, "lent")
	if err := cluster.HandDown(dir, lent); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(lent)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("cpuset\npids\n", string(got)); diff != "" {
		t.Errorf("noted (-want +got):\n%s", diff)
	}
}

func TestRetryTellsTheLastError(t *testing.T) {
	calls := 0
	if err := cluster.Retry(func() error {
		if calls++; calls < 3 {
			return errors.New("busy")
		}
		return nil
	}); err != nil {
		t.Errorf("third time lucky: %v", err)
	}
	stuck := errors.New("busy for good")
	if err := cluster.Retry(func() error { return stuck }); !errors.Is(err, stuck) {
		t.Errorf("Retry() = %v, want %v", err, stuck)
	}
}
