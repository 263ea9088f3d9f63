package preflight_test

import (
	"math"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/test/cluster/preflight"
)

func TestRelease(t *testing.T) {
	tests := map[string]struct {
		release string
		wantErr bool
	}{
		"Debian 12":                         {release: "6.1.0-28-amd64"},
		"the oldest that will do":           {release: "5.13.0"},
		"one older than that":               {release: "5.10.0-30-amd64", wantErr: true},
		"one much older with a big minor":   {release: "4.19.0", wantErr: true},
		"one with a suffix after the minor": {release: "6.18-rc1"},
		"a release that is none":            {release: "custom"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := preflight.Release(tc.release)
			if (err != nil) != tc.wantErr {
				t.Errorf("Release(%q) = %v, want an error: %v", tc.release, err, tc.wantErr)
			}
		})
	}
}

func TestSpaceNamesTheDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := preflight.EnoughSpace(dir, 1); err != nil {
		t.Errorf("one byte: %v", err)
	}
	err := preflight.EnoughSpace(dir, math.MaxUint64)
	if err == nil || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "\n") {
		t.Errorf("all the space there is: %v, want one line that names %s", err, dir)
	}
}
