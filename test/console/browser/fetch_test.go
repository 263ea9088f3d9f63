package browser_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/limpet-io/limpet/test/console/browser"
)

// A cache that has the browser is used without apt-get, dpkg-deb or a network. One whose browser does not start is not.
func TestASecondRunNeedsNoNetwork(t *testing.T) {
	cache := t.TempDir()
	program := filepath.Join(cache, "chromium", "usr", "lib", "chromium", "chromium-headless-shell")
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := browser.Fetch(t.Context(), cache); err == nil {
		t.Error("a cache without a browser was used")
	}
	for script, starts := range map[string]bool{"#!/bin/sh\nexit 1\n": false, "#!/bin/sh\n": true} {
		if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := browser.Fetch(t.Context(), cache); (err == nil) != starts {
			t.Errorf("a browser that starts (%v): %v", starts, err)
		}
	}
}
