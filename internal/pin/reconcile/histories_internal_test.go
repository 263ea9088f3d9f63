package reconcile

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A tenant with thousands of PersistentPodStates takes no place of another namespace, and a
// new one takes no place of an older one of its namespace.
func TestWorkloadsWithMetricsAreBounded(t *testing.T) {
	var all []history
	for i := range 10_000 {
		all = append(all, history{namespace: "a-tenant", name: fmt.Sprint(i), created: int64(10_000 - i)})
	}
	for _, name := range []string{"x", "y", "z"} {
		all = append(all, history{namespace: "b", name: name, created: 7})
	}
	all = append(all, history{namespace: "c", name: "w"})
	names := func(shown []history) (names []string) {
		for _, w := range shown {
			names = append(names, w.namespace+"/"+w.name)
		}
		return names
	}
	for _, tc := range []struct {
		ofNamespace, inAll int
		want               []string
	}{
		{2, 10, []string{"a-tenant/9999", "b/x", "c/w", "a-tenant/9998", "b/y"}},
		{3, 4, []string{"a-tenant/9999", "b/x", "c/w", "a-tenant/9998"}},
		{3, 2, []string{"a-tenant/9999", "b/x"}},
	} {
		shown, further := pickHistories(all, tc.ofNamespace, tc.inAll)
		if diff := cmp.Diff(tc.want, names(shown)); diff != "" || further != len(all)-len(tc.want) {
			t.Errorf("%d of a namespace, %d in all: %d left out (-want +got):\n%s", tc.ofNamespace, tc.inAll, further, diff)
		}
	}
	if shown, further := pickHistories(nil, 2, 2); len(shown)+further != 0 {
		t.Errorf("of none: %v, %d", shown, further)
	}
}
