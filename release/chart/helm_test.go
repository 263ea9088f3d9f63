package chart_test

import (
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"

	"github.com/limpet-io/limpet/release/chart"
)

const deploy = "../../deploy"

var release = chart.Release{Version: "v1.2.3", Registry: "limpet-io", Tag: "dev"}

// made is the chart of these manifests, which every test reads and none changes.
var made = sync.OnceValues(func() (map[string]string, error) { return chart.Files(deploy, release) })

func files(t *testing.T) map[string]string {
	t.Helper()
	f, err := made()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// parse reads values as a user writes them.
func parse(t *testing.T, values string) map[string]any {
	t.Helper()
	parsed := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &parsed); err != nil {
		t.Fatal(err)
	}
	return parsed
}

// helm renders files of a chart as `helm install -n NAMESPACE` does.
func helm(t *testing.T, files map[string]string, namespace, kubernetes, values string) (map[string]string, error) {
	t.Helper()
	var buffered []*archive.BufferedFile
	for _, name := range slices.Sorted(maps.Keys(files)) {
		buffered = append(buffered, &archive.BufferedFile{Name: name, Data: []byte(files[name])})
	}
	c, err := loader.LoadFiles(buffered)
	if err != nil {
		t.Fatal(err)
	}
	version, err := common.ParseKubeVersion(kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	options := common.ReleaseOptions{Name: "limpet", Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := commonutil.ToRenderValues(c, parse(t, values), options, capabilities)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	return byID(rendered), nil
}

// byID names rendered files as kustomized does, and leaves out the notes and the empty ones.
func byID(rendered map[string]string) map[string]string {
	named := map[string]string{}
	for name, text := range rendered {
		if path.Base(name) != "NOTES.txt" && strings.TrimSpace(text) != "" {
			named[strings.TrimSuffix(path.Base(name), ".yaml")] = text
		}
	}
	return named
}

// template renders the chart, which must succeed.
func template(t *testing.T, values string) map[string]string {
	t.Helper()
	rendered, err := helm(t, files(t), "default", "v1.37.0", values)
	if err != nil {
		t.Fatal(err)
	}
	return rendered
}

// kustomized renders a directory of manifests, or directories on top of deploy/default.
func kustomized(t *testing.T, dir string, added ...string) map[string]string {
	t.Helper()
	rendered, err := chart.Rendered(deploy, dir, added...)
	if err != nil {
		t.Fatal(err)
	}
	return rendered
}
