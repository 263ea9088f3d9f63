package console_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// TestReleaseBySelector selects pods that are away, that run, that wait, and that no StatefulSet would make.
func TestReleaseBySelector(t *testing.T) {
	waits, runs := testenv.APod("db-1").In("shop"), testenv.APod("db-2").In("shop")
	waits.Labels = map[string]string{"app": "db", "canary": "yes"} // others than in the template by now
	runs.Labels = map[string]string{"app": "db"}
	f := &facts.Facts{
		Reservations: []limpetv1alpha1.IPReservation{
			kept("web-0", "n1", "10.0.0.1", 10), kept("web-1", "n2", "10.0.0.2", 10), kept("db-0", "n1", "10.0.0.3", 10),
			kept("db-1", "n1", "10.0.0.4", 10), kept("db-2", "n1", "10.0.0.5", 0),
			kept("job", "n1", "10.0.0.6", 10), kept("web-", "n1", "10.0.0.7", 10), kept("web-01", "n1", "10.0.0.8", 10), kept("gone-0", "n1", "10.0.0.9", 10),
		},
		Pods:         []corev1.Pod{*waits.Pod, *runs.Pod},
		StatefulSets: []appsv1.StatefulSet{*testenv.AStatefulSet("web", 2).In("shop").StatefulSet, *testenv.AStatefulSet("db", 3).In("shop").StatefulSet},
	}
	elsewhere := testenv.AStatefulSet("gone", 1).In("other")
	f.StatefulSets = append(f.StatefulSets, *elsewhere.StatefulSet)
	for name, tc := range map[string]struct {
		selector, node string
		want           []string
	}{
		"a label":     {"app=web", "", []string{"web-0", "web-1"}},
		"on one node": {"app=web", "n1", []string{"web-0"}},
		"of a pod that is away, and one that waits": {"app=db", "", []string{"db-0", "db-1"}},
		"of a pod that waits, not the template":     {"canary", "", []string{"db-1"}},
		"several values":                            {"app in (web,db)", "n1", []string{"db-0", "db-1", "web-0"}},
		"an index":                                  {"app=web,apps.kubernetes.io/pod-index=1", "", []string{"web-1"}},
		"a name":                                    {"statefulset.kubernetes.io/pod-name=web-0", "", []string{"web-0"}},
		"all but a label, of those that are known":  {"app!=web", "", []string{"db-0", "db-1"}},
		"nothing":                                   {"app=wbe", "", nil},
		"a label of reservations":                   {"limpet.dev/node", "", nil},
		"a StatefulSet of another namespace":        {"app=gone", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			selector, err := labels.Parse(tc.selector)
			if err != nil {
				t.Fatal(err)
			}
			r, err := console.PlanRelease(f, "shop", console.ReleaseQuery{Selector: selector, Node: tc.node})
			var got []string
			for _, one := range r.Reservations {
				if got = append(got, one.Pod); one.Outcome != console.Releasable {
					t.Errorf("%s is %s", one.Pod, one.Outcome)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil || r.Selector == "" {
				t.Errorf("%v, selector %q (-want +got):\n%s", err, r.Selector, diff)
			}
		})
	}
}
