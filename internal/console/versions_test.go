package console_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
)

// TestVersions compares a cluster of two nodes, in which one program differs, with its controller.
func TestVersions(t *testing.T) {
	tests := map[string]struct {
		client string
		change func(*facts.Facts)
		same   bool
		want   []string // parts of messages
	}{
		"all have one version":       {change: func(*facts.Facts) {}, same: true},
		"an earlier client":          {client: "v0.9.0", change: func(*facts.Facts) {}, same: true, want: []string{"older than"}},
		"a client of a checkout":     {client: "56fed462", change: func(*facts.Facts) {}, same: true, want: []string{"of another version than"}},
		"a later commit":             {client: "v1.0.0-3-gabc1234", change: func(*facts.Facts) {}, same: true, want: []string{"newer than"}},
		"a candidate":                {client: "v1.0.0-rc.1", change: func(*facts.Facts) {}, same: true, want: []string{"older than"}},
		"the same with a change":     {client: "v1.0.0-dirty", change: func(*facts.Facts) {}, same: true, want: []string{"of another build than"}},
		"an earlier agent":           {change: func(f *facts.Facts) { f.Own[1].Spec.Containers[0].Image = "r.example:5000/a:v0.10.0" }, want: []string{"agent and plugin (v0.10.0) are older than the controller (v1.0.0)"}},
		"an agent by digest":         {change: func(f *facts.Facts) { f.Own[1].Spec.Containers[0].Image = "r.example:5000/a@sha256:0123456789abcdef" }, want: []string{"(sha256:0123456789ab) are of another version"}},
		"a tag and a digest":         {change: func(f *facts.Facts) { f.Own[1].Spec.Containers[0].Image = "a:v1.0.0@sha256:0123456789abcdef" }, same: true},
		"an agent that is not Ready": {change: func(f *facts.Facts) { f.Own[1].Status.Conditions = nil }, want: []string{"an earlier plugin may be installed"}},
		"a node without an agent":    {change: func(f *facts.Facts) { f.Own = slices.Delete(f.Own, 1, 2) }, want: []string{"no agent runs"}},
		"a replica of a rollout":     {change: func(f *facts.Facts) { f.Own[0].Spec.Containers[0].Image = "c:v2.0.0" }, same: true, want: []string{"a replica (v2.0.0) is newer than the controller (v1.0.0)"}},
		"no controller":              {change: func(f *facts.Facts) { f.Controllers = nil }, want: []string{"not installed"}},
		"pods that were not read":    {change: func(f *facts.Facts) { f.Unread = []facts.Unread{{Kind: "pods of limpet-system"}} }, same: true},
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
