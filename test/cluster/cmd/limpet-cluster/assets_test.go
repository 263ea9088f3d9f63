package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestComponentsOfPrograms(t *testing.T) {
	got, err := componentsOf([]string{"kube-scheduler", "etcd", "host-local"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"kube-scheduler": "kubernetes", "etcd": "etcd", "host-local": "cni"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("components (-want +got):\n%s", diff)
	}
	if _, err := componentsOf([]string{"etcd", "calico"}); err == nil {
		t.Error("a program of no component is accepted")
	}
}

func TestOnlyLinksAreRemoved(t *testing.T) {
	link := func(t *testing.T, dir, name string) {
		t.Helper()
		if err := os.Symlink("/nonexistent", filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	left := func(t *testing.T, dir string) int {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	t.Run("links of an earlier run", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "assets")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		link(t, dir, "kube-scheduler")
		if err := removeLinks(dir); err != nil || left(t, dir) != 0 {
			t.Errorf("removeLinks: %v, %d entries are left", err, left(t, dir))
		}
	})
	t.Run("files of another program", func(t *testing.T) {
		dir := t.TempDir()
		link(t, dir, "a")
		if err := os.WriteFile(filepath.Join(dir, "thesis"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := removeLinks(dir); err == nil || left(t, dir) != 2 {
			t.Errorf("removeLinks: %v, %d entries are left, want an error and 2", err, left(t, dir))
		}
	})
}
