package main_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The plugin runs once per pod, so what it links is what every pod start pays
// for. depguard sees only direct imports; this sees all of them.
func TestLinksNothingHeavy(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.Lines(string(out)) {
		dep = strings.TrimSpace(dep)
		for _, banned := range []string{"k8s.io/", "sigs.k8s.io/", "github.com/prometheus/", "google.golang.org/grpc", "go.opentelemetry.io/", "github.com/containernetworking/cni/pkg/invoke"} {
			if strings.HasPrefix(dep, banned) {
				t.Errorf("limpet-ipam links %s", dep)
			}
		}
		if dep == "net/http" {
			t.Errorf("limpet-ipam links %s", dep)
		}
	}
}

// The verbs know of host-local, its fork and damaged files only through the seam. depguard sees direct imports;
// this sees all of them.
func TestVerbsKnowOnlyTheSeam(t *testing.T) {
	const module = "github.com/limpet-io/limpet/internal/"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+"cni").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.Lines(string(out)) {
		switch dep = strings.TrimSpace(dep); dep {
		case module + "cni/coexist", module + "cni/recovery", module + "hostlocal", module + "machine":
			t.Errorf("internal/cni depends on %s", dep)
		}
	}
}
