package workload_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/limpet-io/limpet/internal/platform/workload"
)

var gameServers = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "GameServerSet"}

func TestParseKinds(t *testing.T) {
	cases := map[string]struct {
		text   string
		want   []schema.GroupVersionKind
		wantOK bool
	}{
		"nothing said":  {"", nil, true},
		"an empty list": {`{"workloads":[]}`, nil, true},
		"as OpenKruise's users write it": {
			`{"workloads":[{"Group":"example.com","Version":"v1","Kind":"GameServerSet"}]}`,
			[]schema.GroupVersionKind{gameServers},
			true,
		},
		"keys of other features are passed over": {
			`{"workloads":[{"Group":"example.com","Version":"v1","Kind":"GameServerSet","replicasPath":"spec.size"}]}`,
			[]schema.GroupVersionKind{gameServers},
			true,
		},
		"one entry makes no sense": {
			`{"workloads":[{"Kind":"Half"},{"Group":"example.com","Version":"v1","Kind":"GameServerSet"}]}`,
			[]schema.GroupVersionKind{gameServers},
			false,
		},
		"kinds of Kubernetes whose pods never return": {
			`{"workloads":[{"Group":"batch","Version":"v1","Kind":"Job"},{"Group":"apps","Version":"v1","Kind":"ReplicaSet"},{"Version":"v1","Kind":"Pod"}]}`,
			nil, false,
		},
		"a kind of another project with the name of one": {
			`{"workloads":[{"Group":"batch.volcano.sh","Version":"v1alpha1","Kind":"Job"}]}`,
			[]schema.GroupVersionKind{{Group: "batch.volcano.sh", Version: "v1alpha1", Kind: "Job"}},
			true,
		},
		"one that needs not be named": {
			`{"workloads":[{"Group":"apps","Version":"v1","Kind":"StatefulSet"}]}`,
			[]schema.GroupVersionKind{{Group: "apps", Version: "v1", Kind: "StatefulSet"}},
			true,
		},
		"no JSON":                {`{"workloads":`, nil, false},
		"JSON of something else": {`["GameServerSet"]`, nil, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := workload.ParseKinds(tc.text)
			if (err == nil) != tc.wantOK {
				t.Errorf("error: %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}

// Each kind costs a watch and a look at each probe, also where a tenant could write the list.
func TestAListOfKindsIsBounded(t *testing.T) {
	text := `{"workloads":[` + strings.TrimSuffix(strings.Repeat(`{"Group":"example.com","Version":"v1","Kind":"GameServerSet"},`, 65), ",") + `]}`
	if kinds, err := workload.ParseKinds(text); len(kinds) != 64 || err == nil || !strings.Contains(err.Error(), "workloads[64] and the later ones") {
		t.Errorf("%d kinds, %v", len(kinds), err)
	}
}

func FuzzParseKinds(f *testing.F) {
	f.Add(`{"workloads":[{"Group":"example.com","Version":"v1","Kind":"GameServerSet"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		kinds, _ := workload.ParseKinds(text) // what comes beside an error must be good, too
		for _, k := range kinds {
			if k.Version == "" || k.Kind == "" {
				t.Errorf("half a kind: %+v", k)
			}
		}
	})
}

func TestKindsContain(t *testing.T) {
	named := workload.Kinds{Named: []schema.GroupVersionKind{gameServers}}
	cases := map[string]struct {
		kinds            workload.Kinds
		apiVersion, kind string
		want             bool
	}{
		"a StatefulSet":                      {workload.Kinds{}, "apps/v1", "StatefulSet", true},
		"a StatefulSet of OpenKruise":        {workload.Kinds{}, "apps.kruise.io/v1alpha1", "StatefulSet", true},
		"a StatefulSet of another project":   {workload.Kinds{}, "example.com/v1", "StatefulSet", false},
		"a kind that was not named":          {workload.Kinds{}, "example.com/v1", "GameServerSet", false},
		"a kind that was named":              {named, "example.com/v1", "GameServerSet", true},
		"a kind that was named as another's": {named, "example.org/v1", "GameServerSet", false},
		"another version counts as well":     {named, "example.com/v2", "GameServerSet", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.kinds.Contains(workload.NewTarget(tc.apiVersion, tc.kind, "web")); got != tc.want {
				t.Errorf("Contains: %v, want %v", got, tc.want)
			}
		})
	}
}
