package monitoring_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/limpet-io/limpet/test/programs"
)

// TestMonitoringIsInstalledAtOnce builds deploy/monitoring as kubectl does. All objects are in the namespace of
// Limpet, the dashboards are whole, and each PodMonitor selects a port that the pods have.
func TestMonitoringIsInstalledAtOnce(t *testing.T) {
	kubectl, err := programs.Find(os.Getenv(programs.Var), "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), kubectl, "kustomize", filepath.Join(root, "deploy", "monitoring")).Output()
	if err != nil {
		t.Fatalf("kubectl kustomize: %v", err)
	}
	type object struct {
		Kind     string
		Metadata struct {
			Name, Namespace string
			Labels          map[string]string
		}
		Data map[string]string
		Spec struct{ PodMetricsEndpoints []struct{ Port string } }
	}
	var found []string
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(out), 4096); ; {
		var o object
		if err := decoder.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		found = append(found, o.Kind+" "+o.Metadata.Name)
		if o.Metadata.Namespace != "limpet-system" {
			t.Errorf("%s %s is in the namespace %q", o.Kind, o.Metadata.Name, o.Metadata.Namespace)
		}
		for name, text := range o.Data {
			if !json.Valid([]byte(text)) || o.Metadata.Labels["grafana_dashboard"] != "1" {
				t.Errorf("%s is no JSON, or Grafana does not find it: %v", name, o.Metadata.Labels)
			}
		}
		for _, e := range o.Spec.PodMetricsEndpoints {
			if e.Port != "metrics" {
				t.Errorf("%s reads the port %q", o.Metadata.Name, e.Port)
			}
		}
	}
	slices.Sort(found)
	want := []string{
		"ConfigMap limpet-dashboards", "PodMonitor limpet-agent", "PodMonitor limpet-controller",
		"PrometheusRule limpet-agent", "PrometheusRule limpet-controller", "PrometheusRule limpet-rebuilds", "PrometheusRule limpet-replicas",
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}
