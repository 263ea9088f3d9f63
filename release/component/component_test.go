package component_test

import (
	"strings"
	"testing"

	"github.com/limpet-io/limpet/release/component"
)

// TestDirectoriesWithoutANetwork asks for a module that is not in the module cache.
func TestDirectoriesWithoutANetwork(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	dirs, err := component.Directories(t.Context(), "go", []component.Module{{Path: "example.com/missing", Version: "v1.2.3"}})
	if err == nil || !strings.Contains(err.Error(), "module example.com/missing@v1.2.3 is not in the module cache and cannot be downloaded") {
		t.Errorf("found %v, error %v", dirs, err)
	}
}
