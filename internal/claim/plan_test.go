package claim_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/claim"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

func TestPlan(t *testing.T) {
	noon := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	attached := func(network, ips string) limpetv1alpha1.IPReservation {
		return limpetv1alpha1.IPReservation{Status: limpetv1alpha1.IPReservationStatus{Network: network, IPs: ips, State: limpetv1alpha1.IPAttached}}
	}
	reserved := func(network, ips string, minutes int) limpetv1alpha1.IPReservation {
		r := attached(network, ips)
		r.Status.State, r.Status.Until = limpetv1alpha1.IPReserved, &metav1.Time{Time: noon.Add(time.Duration(minutes) * time.Minute)}
		return r
	}
	held := func(all ...limpetv1alpha1.IPReservation) []limpetv1alpha1.IPReservation { return all }
	for name, tc := range map[string]struct {
		in   claim.Input
		want claim.Decision
	}{
		"nothing is kept": {claim.Input{Network: "blue"}, claim.Decision{}},
		"a pod runs":      {claim.Input{Network: "blue", Held: held(attached("blue", "10.0.0.2,fd00::2"))}, claim.Decision{Show: []string{"10.0.0.2", "fd00::2"}, Write: true}},
		"shown already": {
			claim.Input{Network: "blue", Shown: []string{"10.0.0.2"}, Ours: true, Held: held(attached("blue", "10.0.0.2"))}, claim.Decision{Show: []string{"10.0.0.2"}},
		},
		"another network": {claim.Input{Network: "blue", Held: held(attached("red", "10.0.0.2"))}, claim.Decision{}},
		"two nodes, a pod runs on one": {
			claim.Input{Network: "blue", Held: held(reserved("blue", "10.0.0.2", 5), attached("blue", "10.0.1.2"), reserved("blue", "10.0.2.2", 9))},
			claim.Decision{Show: []string{"10.0.1.2"}, Write: true},
		},
		"two nodes, no pod runs": {
			claim.Input{Network: "blue", Held: held(reserved("blue", "10.0.0.2", 5), reserved("blue", "10.0.1.2", 9))}, claim.Decision{Show: []string{"10.0.1.2"}, Write: true},
		},
		"two pods run, the second is shown": {
			claim.Input{Network: "blue", Shown: []string{"10.0.1.2"}, Ours: true, Held: held(attached("blue", "10.0.0.2"), attached("blue", "10.0.1.2"))},
			claim.Decision{Show: []string{"10.0.1.2"}},
		},
		"two pods run, none is shown": {
			claim.Input{Network: "blue", Held: held(attached("blue", "10.0.1.2"), attached("blue", "10.0.0.2"))}, claim.Decision{Show: []string{"10.0.0.2"}, Write: true},
		},
		"kept no more":             {claim.Input{Network: "blue", Shown: []string{"10.0.0.2"}, Ours: true}, claim.Decision{Write: true}},
		"shown by another program": {claim.Input{Network: "blue", Shown: []string{"10.0.0.2/24"}}, claim.Decision{}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, claim.Plan(tc.in), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
