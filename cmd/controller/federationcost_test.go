package main

import (
	"slices"
	"testing"
	"time"

	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// TestWhatADecisionOfSitesCosts evicts pods in turn under a budget of one site, and under those of two sites whose unit lies
// here, and prints how long the evictions took. Strict asks the other site, too.
func TestWhatADecisionOfSitesCosts(t *testing.T) {
	if testing.Short() {
		t.Skip("-short was given, and this rebuilds 90 pods one after the other; make test-all runs it")
	}
	install(t)
	r := startReplica(t, "--leader-elect=false")
	pointWebhooksAt(t, r)
	r.waitReady(t)
	here := &land{name: "", env: env, replica: r}
	names := []string{"one site", "Reserved", "Strict"}
	teams := map[string]*team{
		names[0]: {lands: []*land{here}, in: []string{"cost-one"}, size: perLand},
		names[1]: {lands: []*land{here, here}, in: []string{"cost-a", "cost-b"}, size: perLand},
		names[2]: {lands: []*land{here, here}, in: []string{"cost-c", "cost-d"}, size: perLand},
	}
	for name, w := range teams {
		w.fill(t, func(s *limpetv1alpha1.DistributedPodDisruptionBudgetSpec) {
			atMostOne(s)
			switch name {
			case names[0]:
				s.Federation = nil
			case names[1]:
				s.PartitionPolicy = limpetv1alpha1.PartitionReserved
			}
		})
	}
	took := map[string][]time.Duration{}
	for round := range 30 {
		for _, name := range names {
			w := teams[name]
			w.shows(t, 0, func(b *limpetv1alpha1.DistributedPodDisruptionBudget) bool {
				return b.Status.CurrentHealthy == perLand && (round == 0 || b.Status.DisruptionsAllowed == 1)
			})
			if round == 0 { // brings the unit
				w.goes(t, 0, 0)
			} else {
				began := time.Now()
				if err := w.evict(t.Context(), 0, 0); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				took[name] = append(took[name], time.Since(began))
			}
			w.rebuild(t, 0, 0)
		}
	}
	for _, name := range names {
		all := took[name]
		slices.Sort(all)
		t.Logf("%s: half of %d evictions within %s, nine of ten within %s", name, len(all), all[len(all)/2].Round(time.Millisecond/10), all[len(all)*9/10].Round(time.Millisecond/10))
	}
}
