package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/test/disruptions"
)

// budgetsKept fails if more pods of a budget were away together than it allows. It believes the audit logs of all clusters, and
// neither controllers nor books. Pods that a test loses count, and no request is to blame for them. A request that passed
// without an answer of the guard is a fault, too, unless a test stops controllers.
func budgetsKept(t *testing.T, teams ...*team) {
	t.Helper()
	open := 0
	testenv.Eventually(t, func() error { // a busy API server may log an answer after its client has it
		logs, spaces := map[string][]disruptions.Event{}, []string{}
		for _, w := range teams { // other tests write what no checker reads
			spaces = append(spaces, w.in...)
		}
		open = 0
		for _, w := range teams {
			for _, l := range w.lands {
				if logs[l.name] == nil {
					logs[l.name] = l.audited(t, spaces)
					for _, e := range logs[l.name] {
						if e.Open && e.Resource == "pods" && e.Code < 300 && !e.DryRun {
							open++
						}
					}
				}
			}
			if err := w.audit(t, logs); err != nil {
				return err
			}
		}
		return nil
	})
	if open > 0 && !teams[0].open {
		t.Errorf("%d requests had no answer in time, and passed", open)
	}
}

// audited are the events in some namespaces in the audit log of a land.
func (l *land) audited(t *testing.T, namespaces []string) []disruptions.Event {
	t.Helper()
	file, err := os.Open(l.env.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	events, err := disruptions.Read(file, namespaces...)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// audit compares what logs show with each budget of the team: it is asked for the pods of its site, and counts those of all
// that it names. An error tells that the logs lack evictions that were made.
func (w *team) audit(t *testing.T, logs map[string][]disruptions.Event) error {
	t.Helper()
	for at, b := range w.budgets {
		named := w.group(at)
		most := w.size * len(named)
		if b.Spec.MaxUnavailable != nil {
			most = b.Spec.MaxUnavailable.IntValue()
		} else {
			most -= b.Spec.MinAvailable.IntValue()
		}
		violations, requests := disruptions.Together(logs, most, func(cluster, namespace, pod string) (counts, judged bool) {
			is := func(i int) bool {
				return w.lands[i].name == cluster && w.in[i] == namespace && strings.HasPrefix(pod, w.title()+"-")
			}
			return slices.ContainsFunc(named, is), is(at)
		})
		if want := int(w.went[at].Load()); requests < want {
			return fmt.Errorf("audit log of %s has %d evictions of %s/%s, want %d", w.lands[at].name, requests, w.in[at], w.title(), want)
		}
		for _, v := range violations {
			t.Error(v)
		}
	}
	return nil
}

// group are the sites that the budget at one of them names, and that site.
func (w *team) group(at int) (sites []int) {
	b := w.budgets[at]
	for i, l := range w.lands {
		if i == at || slices.ContainsFunc(b.Spec.Federation, func(p limpetv1alpha1.BudgetPeer) bool {
			return p.Cluster == l.name && cmp.Or(p.Namespace, b.Namespace) == w.in[i] && p.Name == w.title()
		}) {
			sites = append(sites, i)
		}
	}
	return sites
}
