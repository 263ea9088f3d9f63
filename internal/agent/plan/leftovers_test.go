package plan_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

// TestLeftovers makes files as an installation does, and files that look similar.
func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	f, err := os.CreateTemp(dir, plan.TempPattern("limpet-ipam"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".limpet-ipam.x.limpet", ".limpet-ipam..limpet", ".limpet-ipam.1", "limpet-ipam.1.limpet", ".other.1.limpet", "limpet-ipam"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, ".limpet-ipam.2.limpet"), 0o755); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var files []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, info)
	}
	for after, want := range map[time.Duration][]string{0: nil, plan.LeftoverGrace + time.Minute: {filepath.Base(f.Name())}} {
		if got := plan.Leftovers(files, "limpet-ipam", time.Now().Add(after), plan.LeftoverGrace); !slices.Equal(got, want) {
			t.Errorf("after %s: %v, want %v", after, got, want)
		}
	}
}
