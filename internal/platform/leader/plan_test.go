package leader

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

func TestPlan(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	held := func(by string, seconds int32) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &by, LeaseDurationSeconds: &seconds}}
	}
	cases := map[string]struct {
		lease *coordinationv1.Lease
		led   bool
		seen  time.Duration // before now
		want  step
	}{
		"there is no Lease":                            {nil, false, 0, take},
		"the Lease was given back":                     {held("", 1), false, 0, take},
		"… to this replica, which led":                 {held("", 1), true, 0, take},
		"it is our own":                                {held("self", 10), true, 0, take},
		"it is our own, from long ago":                 {held("self", 10), true, time.Hour, take},
		"another replica leads":                        {held("other", 10), false, 9 * time.Second, follow},
		"another replica has not renewed it":           {held("other", 10), false, 10 * time.Second, take},
		"… nor one of a former version, by its length": {held("other", 15), false, 10 * time.Second, follow},
		"another replica took it from us":              {held("other", 10), true, 0, deposed},
		"… and has not renewed it":                     {held("other", 10), true, time.Hour, deposed},
		"a Lease without a holder":                     {&coordinationv1.Lease{}, false, 0, take},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := plan(view{lease: tc.lease, self: "self", led: tc.led, seen: now.Add(-tc.seen), now: now})
			if got != tc.want {
				t.Errorf("plan() = %d, want %d", got, tc.want)
			}
		})
	}
}
