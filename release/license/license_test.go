package license_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/release/license"
)

// TestOf finds a licence by its text, whatever its file is called, and reports a directory
// without one.
func TestOf(t *testing.T) {
	f, err := license.NewFinder()
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"LICENSE", "LICENCE.md", "COPYING", "license.txt", "LICENSE.code"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), own, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := f.Of(dir); err != nil || !slices.Equal(got, []string{"Apache-2.0"}) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "LICENSE"), []byte("All rights reserved."), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Of(dir); !errors.Is(err, license.ErrNone) {
		t.Errorf("a text that is no licence: got %v", err)
	}
}

// TestCheck names what is not allowed, also beside a licence that is.
func TestCheck(t *testing.T) {
	if err := license.Check([]string{"Apache-2.0", "MIT"}); err != nil {
		t.Error(err)
	}
	if err := license.Check([]string{"Apache-2.0", "GPL-3.0"}); err == nil || !strings.Contains(err.Error(), "GPL-3.0") {
		t.Errorf("got %v", err)
	}
}
