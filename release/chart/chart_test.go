package chart_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"github.com/limpet-io/limpet/release/chart"
)

// copied returns a copy of the deploy directory, in which one file is another one.
func copied(t *testing.T, file string, change func(string) string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(deploy)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, file)
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(change(string(text))), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestManifestsThatTheChartDoesNotKnow checks that a change of deploy never silently leaves the chart behind.
func TestManifestsThatTheChartDoesNotKnow(t *testing.T) {
	cases := map[string]struct {
		file   string
		change func(string) string
		want   string
	}{
		"a new variant": {"new/kustomization.yaml", func(string) string { return "resources: [../default]" }, "the chart does not know deploy/new"},
		"another line where a value stands": {
			"controller/deployment.yaml", func(s string) string { return strings.Replace(s, "replicas: 2", "replicas: 3", 1) },
			`the lines ["replicas: 2"] are not in deployment_limpet-system_limpet-controller: change edits.go`,
		},
		"another registry in values.yaml": {
			"chart/values.yaml", func(s string) string { return strings.Replace(s, "registry: limpet-io", "registry: other", 1) },
			"values.yaml has no line with the registry limpet-io",
		},
		"a version in Chart.yaml": {
			"chart/Chart.yaml", func(s string) string { return strings.Replace(s, "version: 0.0.0", "version: 1.0.0", 1) },
			"Chart.yaml has no line",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := chart.Files(copied(t, tc.file, tc.change), chart.Release{Version: "v1.2.3", Registry: "r.example", Tag: "v1.2.3"})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestPack makes the same bytes twice, which Helm can load.
func TestPack(t *testing.T) {
	var archives [][]byte
	f, err := chart.Files(deploy, chart.Release{Version: "v1.2.3", Registry: "r.example/limpet", Tag: "v1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "limpet.tgz")
	for range 2 {
		if err := chart.Pack(path, f); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, data)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same files differ")
	}
	c, err := loader.LoadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.Metadata.Version != "1.2.3" || c.Metadata.AppVersion != "v1.2.3" {
		t.Errorf("the chart has version %s and appVersion %s", c.Metadata.Version, c.Metadata.AppVersion)
	}
	if image := c.Values["image"].(map[string]any)["registry"]; image != "r.example/limpet" {
		t.Errorf("the registry is %v", image)
	}
	if len(c.CRDObjects()) > 0 {
		t.Error("the directory crds has CRDs, which Helm never upgrades")
	}
}

// TestVersions makes a semantic version of each version that git describes.
func TestVersions(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "1.2.3", "1.2.3-rc.1": "1.2.3-rc.1", "v1.2.3-4-gabc1234": "1.2.3-4-gabc1234", "0123456": "0.0.0-g0123456",
		"025577e-dirty": "0.0.0-g025577e-dirty", "dev": "0.0.0-gdev",
	} {
		if got := (chart.Release{Version: version}).ChartVersion(); got != want {
			t.Errorf("%s: the chart has the version %s, want %s", version, got, want)
		}
	}
}
