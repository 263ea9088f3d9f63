package chart_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"

	"github.com/limpet-io/limpet/release/chart"
)

// everything turns on what can be turned on together.
const everything = "network: {mode: own, settings: true}\npods: {source: kubelet}\ncertificate: {source: cert-manager}\nmutatingPolicy: {enabled: true}\n" +
	"breakGlass: {enabled: true}\nnetworkPolicy: {enabled: true, apiServers: [10.0.0.0/28]}\nalerts: {enabled: true}\nmonitoring: {enabled: true}\n" +
	"controller: {replicas: 3}"

// helm3 renders files of a chart as helm does, with the module of Helm 3.
func helm3(t *testing.T, files map[string]string, namespace, kubernetes, values string) (map[string]string, error) {
	t.Helper()
	var buffered []*loader.BufferedFile
	for _, name := range slices.Sorted(maps.Keys(files)) {
		buffered = append(buffered, &loader.BufferedFile{Name: name, Data: []byte(files[name])})
	}
	c, err := loader.LoadFiles(buffered)
	if err != nil {
		t.Fatal(err)
	}
	version, err := chartutil.ParseKubeVersion(kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	options := chartutil.ReleaseOptions{Name: "limpet", Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(c, parse(t, values), options, capabilities)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	return byID(rendered), nil
}

// TestHelm3RendersWhatHelm4Does compares the texts of both, which TestChartInstallsWhatKustomizeDoes compares with the
// manifests.
func TestHelm3RendersWhatHelm4Does(t *testing.T) {
	cases := map[string]struct{ namespace, kubernetes, values string }{
		"default":            {"default", "v1.37.0", ""},
		"in its own":         {"limpet-system", "v1.37.0", ""},
		"an older cluster":   {"default", "v1.30.4", ""},
		"everything":         {"default", "v1.37.0", everything},
		"without CRDs":       {"default", "v1.37.0", "crds: {install: false}\nflowControl: {enabled: false}\ncertificate: {source: given}"},
		"an adopted network": {"default", "v1.37.0", "network: {mode: adopt}\npods: {source: runtime}"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want, err := helm(t, files(t), tc.namespace, tc.kubernetes, tc.values)
			if err != nil {
				t.Fatal(err)
			}
			got, err := helm3(t, files(t), tc.namespace, tc.kubernetes, tc.values)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" || len(got) < 20 {
				t.Errorf("%d objects (-Helm 4 +Helm 3):\n%s", len(got), diff)
			}
		})
	}
}

// TestHelm3RefusesWrongValues checks that Helm 3 reads the schema, and the conditions on the version of Kubernetes.
func TestHelm3RefusesWrongValues(t *testing.T) {
	for values, want := range map[string]string{
		"controller: {replica: 3}":             "replica",
		"certificate: {source: certmanager}":   "certificate",
		"agent: {extraArgs: v=1}":              "extraArgs",
		"network: {mode: own, settings: true}": "network.settings needs Kubernetes 1.31 or later: this cluster has v1.30.4",
	} {
		t.Run(values, func(t *testing.T) {
			if _, err := helm3(t, files(t), "default", "v1.30.4", values); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
}

// TestHelm3Lint runs the checks of Helm 3, and takes warnings for errors as --strict does.
func TestHelm3Lint(t *testing.T) {
	for name, values := range map[string]string{"default": "", "everything": everything} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir() + "/" + chart.Name
			if err := chart.Write(dir, files(t)); err != nil {
				t.Fatal(err)
			}
			version, err := chartutil.ParseKubeVersion("v1.37.0")
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range lint.AllWithKubeVersion(dir, parse(t, values), "default", version).Messages {
				if m.Severity > support.InfoSev {
					t.Error(fmt.Errorf("%s: %w", m.Path, m.Err))
				}
			}
		})
	}
}
