package console_test

import (
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
)

// tell makes leader and plugins tell their versions. That of agents is v1.2.3.
func tell(f *facts.Facts, leader, plugin string) {
	f.Leader = &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: new("limpet-controller-7f_" + leader + "_0a1b")}}
	for i := range f.Pools {
		f.Pools[i].Status.AgentVersion, f.Pools[i].Status.PluginVersion = "v1.2.3", plugin
	}
}

// TestVersions compares a cluster of two nodes, in which one program differs, with its controller.
func TestVersions(t *testing.T) {
	tests := map[string]struct {
		client string
		change func(*facts.Facts)
		same   bool
		want   []string // parts of messages
	}{
		"all have one version":       {change: func(*facts.Facts) {}, same: true},
		"an earlier client":          {client: "v0.9.0", change: func(*facts.Facts) {}, same: true, want: []string{"the client (v0.9.0) differs from the controller (v1.0.0)"}},
		"an earlier agent":           {change: func(f *facts.Facts) { f.Own[1].Spec.Containers[0].Image = "r.example:5000/a:v0.10.0" }, want: []string{"agent and plugin (v0.10.0) differ from the controller (v1.0.0)"}},
		"an agent by digest":         {change: func(f *facts.Facts) { f.Own[1].Spec.Containers[0].Image = "r.example:5000/a@sha256:0123456789abcdef" }, want: []string{"(sha256:0123456789ab) differ"}},
		"a tag and a digest":         {change: func(f *facts.Facts) { f.Own[1].Spec.Containers[0].Image = "a:v1.0.0@sha256:0123456789abcdef" }, same: true},
		"an agent that is not Ready": {change: func(f *facts.Facts) { f.Own[1].Status.Conditions = nil }, want: []string{"an earlier plugin may be installed"}},
		"a node without an agent":    {change: func(f *facts.Facts) { f.Own = slices.Delete(f.Own, 1, 2) }, want: []string{"no agent runs"}},
		"a replica of a rollout":     {change: func(f *facts.Facts) { f.Own[0].Spec.Containers[0].Image = "c:v2.0.0" }, same: true, want: []string{"a replica (v2.0.0) differs from the controller (v1.0.0)"}},
		"an injected container": {change: func(f *facts.Facts) {
			f.Own[0].Spec.Containers = append([]corev1.Container{{Name: "proxy", Image: "proxy:v9"}}, f.Own[0].Spec.Containers...)
		}, same: true},
		"agents tell other versions than tags": {change: func(f *facts.Facts) { tell(f, "v1.2.3", "v1.2.3") }, client: "v1.2.3", same: true},
		"an agent by the same tag":             {change: func(f *facts.Facts) { tell(f, "v1.3.0", "v1.2.3") }, client: "v1.3.0", want: []string{"agent and plugin (v1.2.3) differ from the controller (v1.3.0)"}},
		"a plugin of another program":          {change: func(f *facts.Facts) { tell(f, "v1.2.3", "v1.2.0") }, client: "v1.2.3", want: []string{"the plugin (v1.2.0) differs from its agent (v1.2.3)"}},
		"a client of the next year":            {change: func(f *facts.Facts) { tell(f, "v1.2.3", "v1.2.3") }, client: "v1.4.0", same: true, want: []string{"the client (v1.4.0) differs from the controller (v1.2.3), by more than one minor version"}},
		"no controller":                        {change: func(f *facts.Facts) { f.Controllers = nil }, want: []string{"not installed"}},
		"pods that were not read":              {change: func(f *facts.Facts) { f.Unread = []facts.Unread{{Kind: "pods of limpet-system"}} }, same: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := installed()
			f.Controllers.Spec.Template = *f.Controllers.Spec.Template.DeepCopy()
			for i := range f.Own {
				f.Own[i].Spec.Containers[0].Image = "r.example:5000/limpet:v1.0.0"
			}
			f.Controllers.Spec.Template.Spec = f.Own[0].Spec
			f.Controllers.Spec.Template.Spec.Containers = slices.Clone(f.Own[0].Spec.Containers)
			tc.change(f)
			if tc.client == "" {
				tc.client = "v1.0.0"
			}
			r := console.Versions(f, tc.client)
			if len(f.Unread) > 0 && len(r.Nodes) > 0 {
				t.Errorf("the versions of nodes are unknown, and %+v", r.Nodes)
			}
			if r.Same() != tc.same || len(r.Problems) != len(tc.want) {
				t.Fatalf("same %t, %+v; want %t and %q", r.Same(), r.Problems, tc.same, tc.want)
			}
			for i, want := range tc.want {
				if !strings.Contains(r.Problems[i].Message, want) {
					t.Errorf("%q does not say %q", r.Problems[i].Message, want)
				}
			}
		})
	}
}
