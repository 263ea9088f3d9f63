package workload_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/limpet-io/limpet/internal/platform/workload"
)

func TestParseSpreadKinds(t *testing.T) {
	room := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "GameRoom"}
	entry := func(more string) string {
		return `{"workloads":[{"Group":"example.com","Version":"v1","Kind":"GameServerSet"` + more + `}]}`
	}
	one := []workload.SpreadKind{{GroupVersionKind: gameServers}}
	many := strings.Repeat(`{"Group":"example.com","Version":"v1","Kind":"A"},`, 70)
	cases := map[string]struct {
		text    string
		want    []workload.SpreadKind
		problem string
	}{
		"nothing said":   {"", nil, ""},
		"no other field": {entry(""), one, ""},
		"all fields": {
			entry(`,"replicasPath":"spec.groups.0.size","subResources":[{"Group":"example.com","Version":"v1","Kind":"GameRoom"}]`),
			[]workload.SpreadKind{{GroupVersionKind: gameServers, Between: []schema.GroupVersionKind{room}, ReplicasPath: "spec.groups.0.size"}},
			"",
		},
		"a kind of Kubernetes":    {`{"workloads":[{"Group":"batch","Version":"v1","Kind":"CronJob"}]}`, []workload.SpreadKind{{GroupVersionKind: schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "CronJob"}}}, ""},
		"a DaemonSet":             {`{"workloads":[{"Group":"apps","Version":"v1","Kind":"DaemonSet"}]}`, nil, "workloads[0] is DaemonSet"},
		"no version":              {`{"workloads":[{"Kind":"Half"},{"Group":"example.com","Version":"v1","Kind":"GameServerSet"}]}`, one, "workloads[0] needs a Version"},
		"half a kind between":     {entry(`,"subResources":[{"Group":"example.com","Kind":"GameRoom"}]`), nil, "subResources[0]"},
		"too many kinds between":  {entry(`,"subResources":[` + strings.TrimSuffix(strings.Repeat(`{"Group":"g","Version":"v1","Kind":"K"},`, 17), ",") + `]`), nil, "more than 16"},
		"a path with a gap":       {entry(`,"replicasPath":"spec..size"`), nil, "replicasPath"},
		"a path that is too long": {entry(`,"replicasPath":"` + strings.Repeat("a", 300) + `"`), nil, "replicasPath"},
		"no JSON":                 {`{"workloads":`, nil, "malformed"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := workload.ParseSpreadKinds(tc.text)
			if (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
				t.Errorf("error %v, want %q", err, tc.problem)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
	kinds, err := workload.ParseSpreadKinds(`{"workloads":[` + strings.TrimSuffix(many, ",") + `]}`)
	if len(kinds) != 64 || err == nil || !strings.Contains(err.Error(), "workloads[64] and the later ones") {
		t.Errorf("%d kinds, %v", len(kinds), err)
	}
}

func TestSpreadKinds(t *testing.T) {
	kinds, err := workload.ParseSpreadKinds(`{"workloads":[
		{"Group":"example.com","Version":"v1","Kind":"Game","replicasPath":"spec.size","subResources":[{"Group":"example.com","Version":"v1","Kind":"Room"}]},
		{"Group":"example.com","Version":"v1","Kind":"Arena","subResources":[{"Group":"example.com","Version":"v2","Kind":"Room"}]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	all := workload.SpreadKinds{Named: kinds}
	of := func(kind string) schema.GroupKind { return schema.GroupKind{Group: "example.com", Kind: kind} }
	got := fmt.Sprint(all.Contains(of("Game")), all.Contains(of("Room")), all.PathOf(of("Game")), "/", all.PathOf(of("Arena")), "/", all.PathOf(of("Room")),
		all.Above(of("Room")), all.Above(of("Game")), len(all.BetweenOf(of("Game"))), len(all.BetweenOf(of("Room"))), len(all.All()))
	if want := "true falsespec.size//[Game.example.com Arena.example.com] [] 1 0 4"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func FuzzParseSpreadKinds(f *testing.F) {
	f.Add(`{"workloads":[{"Group":"example.com","Version":"v1","Kind":"Game","replicasPath":"spec.size"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		kinds, _ := workload.ParseSpreadKinds(text) // what comes beside an error must be good, too
		for _, k := range kinds {
			if k.Version == "" || k.Kind == "" || len(k.Between) > 16 || strings.HasSuffix(k.ReplicasPath, ".") {
				t.Errorf("%q gives %+v", text, k)
			}
		}
	})
}
