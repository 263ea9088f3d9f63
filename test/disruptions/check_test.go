package disruptions_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/test/disruptions"
)

// TestARuleHasALogThatViolates has for each rule a log that violates it, and one that conforms
// and differs in one thing.
func TestARuleHasALogThatViolates(t *testing.T) {
	one, two, three := intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromInt32(3)
	second := disruptions.Budget{UID: "u-second", Name: "second", Selector: web(), MinAvailable: &two}
	cautious := disruptions.Budget{UID: "u-all", Name: "all", Selector: web(), MaxUnavailable: &one, ProtectUnready: true}
	stable := disruptions.Budget{UID: "u-all", Name: "all", Selector: web(), MaxUnavailable: &one, Stable: 10 * time.Second}
	with := func(vectors map[disruptions.Vector]string) disruptions.Budget {
		return disruptions.Budget{UID: "u-all", Name: "all", Selector: web(), MaxUnavailable: &one, Vectors: vectors}
	}
	tests := map[string]struct {
		log  *log
		want []disruptions.Rule
	}{
		"every ordinary way":                      {conforming(), nil},
		"two evictions, no successor":             {newLog().evict("a").evict("b"), below},
		"two evictions, a successor not Ready":    {newLog().evict("a").create("d").evict("b"), below},
		"two evictions, a Ready successor":        {newLog().evict("a").create("d").ready("d").evict("b"), nil},
		"an eviction and a deletion":              {newLog().evict("a").delete(person, "b"), below},
		"a rolling update takes two":              {newLog().delete(rsCtl, "a").delete(rsCtl, "b"), below},
		"scale-in to two takes one more":          {newLog().evict("a").scale(2).delete(rsCtl, "b"), nil},
		"scale-in of too many":                    {newLog().scale(2).delete(rsCtl, "a").delete(person, "b").delete(person, "c"), below},
		"a pod that is not Ready is evicted":      {newLog().unready("a").evict("a"), nil},
		"a crash, then an eviction":               {newLog().unready("a").evict("b"), below},
		"a crash while the eviction is admitted":  {newLog().unready("a").evict("b").slow(3 * time.Second), nil},
		"an eviction, then a crash":               {newLog().evict("a").unready("b"), nil},
		"one crash covers one eviction":           {newLog().unready("a").evict("b").slow(3 * time.Second).evict("c").slow(4 * time.Second), below},
		"a slow eviction that was asked first":    {newLog().sleep(time.Minute).evict("a").delete(person, "b").slow(20 * time.Second), below},
		"not Ready when asked for, other before":  {scaledOut().evict("b").slow(20 * time.Second).evict("d").slow(3 * time.Second), nil},
		"not Ready when asked for, other after":   {scaledOut().evict("b").evict("d").slow(3 * time.Second), below},
		"not Ready, of a short budget":            {newLog().unready("a").unready("b").evict("a"), nil},
		"… that protects such pods":               {newLog().budget(cautious).unready("a").unready("b").sleep(time.Minute).evict("a"), short},
		"… and has enough others":                 {newLog().budget(cautious).unready("a").sleep(time.Minute).evict("a"), nil},
		"… and was short a moment later":          {newLog().budget(cautious).unready("a").unready("b").evict("a").slow(3 * time.Second), nil},
		"… a pod that never ran":                  {newLog().budget(cautious).create("d").pending("d").unready("a").unready("b").sleep(time.Minute).evict("d"), nil},
		"… a pod that was started just now":       {newLog().budget(cautious).create("d").pending("d").unready("a").unready("b").sleep(time.Minute).started("d").evict("d").slow(2 * time.Second), nil},
		"… a pod that was started before":         {newLog().budget(cautious).create("d").pending("d").unready("a").unready("b").sleep(time.Minute).started("d").sleep(time.Minute).evict("d"), short},
		"… a pod without protection":              {newLog().budget(cautious).write(person, "patch", "", "b", func(p *disruptions.Pod) { p.Unprotected = true }).unready("a").unready("b").sleep(time.Minute).evict("b"), nil},
		"… preemption":                            {newLog().budget(cautious).unready("a").unready("b").sleep(time.Minute).delete("system:kube-scheduler", "a"), nil},
		"… a change in place":                     {newLog().budget(cautious).unready("a").unready("b").sleep(time.Minute).image("a"), short},
		"… a pod that is marked":                  {newLog().mark("a").unready("b").sleep(time.Minute).evict("a"), nil},
		"Ready for a moment, of a short budget":   {newLog().budget(stable).unready("a").unready("b").sleep(time.Minute).ready("a").sleep(2 * time.Second).evict("a"), short},
		"Ready for a moment, and enough others":   {newLog().budget(stable).sleep(time.Minute).unready("a").ready("a").sleep(2 * time.Second).evict("a"), nil},
		"preemption":                              {newLog().evict("a").delete("system:kube-scheduler", "b"), nil},
		"an eviction after preemption":            {newLog().delete("system:kube-scheduler", "a").evict("b"), below},
		"preemption that the budget checks":       {newLog().budget(with(map[disruptions.Vector]string{disruptions.Preemption: "Check"})).evict("a").delete("system:kube-scheduler", "b"), below},
		"evictions that the budget allows":        {newLog().budget(with(map[disruptions.Vector]string{disruptions.Evict: "Allow"})).evict("a").evict("b"), nil},
		"PodGC":                                   {newLog().evict("a").delete("system:serviceaccount:kube-system:pod-garbage-collector", "b"), nil},
		"garbage collection":                      {newLog().evict("a").delete("system:serviceaccount:kube-system:generic-garbage-collector", "b"), nil},
		"a taint of an administrator":             {newLog().taint("mine").evict("a").delete(taintCtl, "b"), below},
		"the taint of a dead node":                {newLog().taint("node.kubernetes.io/unreachable").evict("a").delete(taintCtl, "b"), nil},
		"break-glass":                             {newLog().evict("a").delete(person, "b").by("limpet.dev:break-glass"), nil},
		"an image change of two pods":             {newLog().image("a").image("b"), below},
		"an image change after the other":         {newLog().image("a").restarted("a").image("b"), nil},
		"an eviction after a resize":              {newLog().write(person, "patch", "resize", "a", func(p *disruptions.Pod) { p.Images = "two" }).evict("b"), below},
		"relabelled out of the budget":            {newLog().evict("a").relabel("b"), below},
		"relabelled first":                        {newLog().relabel("a").evict("b"), below},
		"a pod without protection":                {newLog().write(person, "patch", "", "b", func(p *disruptions.Pod) { p.Unprotected = true }).evict("a").evict("b"), nil},
		"an unavailable label counts":             {newLog().mark("a").evict("b"), below},
		"two budgets, the second is short":        {newLog().budget(second).unready("a").sleep(time.Minute).evict("b"), below},
		"a budget that came later":                {newLog().evict("a").budget(second).evict("b").slow(2 * time.Second), below}, // of the first
		"the only budget came later":              {noBudget().evict("a").budget(second).evict("b").slow(5 * time.Second), nil},
		"the only budget came before":             {noBudget().evict("a").budget(second).evict("b"), below},
		"a budget that is gone":                   {newLog().budgetGone().evict("a").evict("b"), nil},
		"everything is refused":                   {newLog().repeat(20, "a"), stalled},
		"refused for a short time":                {newLog().repeat(10, "a"), nil},
		"refused once, and again much later":      {newLog().refused("a").sleep(2 * time.Minute).refused("a"), nil},
		"refused, and units come free in between": {newLog().evict("a").repeat(10, "b").create("d").ready("d").repeat(10, "b"), nil},
		"refused while nothing is free":           {newLog().evict("a").repeat(20, "b"), nil},
		"refused soon after a unit came free":     {newLog().evict("a").sleep(2 * time.Minute).create("d").ready("d").refused("b"), nil},
		"refused, and one other was allowed":      {big().repeat(10, "a").evict("b").repeat(10, "a"), nil},
		"refused by a native budget":              {newLog().repeat(20, "a").says("Cannot evict pod as it would violate the pod's disruption budget."), nil},
		"one of two budgets has no unit":          {newLog().budget(disruptions.Budget{UID: "u-2", Name: "none", Selector: web(), MinAvailable: &three}).repeat(20, "a"), nil},
		"all at once":                             {newLog().sleep(time.Minute).collection("a", "b"), below},
		"all at once, refused in between":         {newLog().evict("a").collectionFails().ends("b").evict("c"), below},
		"all at once, refused after one":          {newLog().collectionFails().ends("a"), nil},
		"a deletion without a version":            {newLog().deleteUnseen("a").evict("b"), below},
		"the end of a predecessor":                {newLog().deleteUnseen("x").evict("b"), nil},
		"a deletion after an eviction":            {newLog().evicted("a").create("d").ready("d").repeated("a"), nil},
		"a deletion without grace, seen half":     {newLog().evict("a").create("d").ready("d").forced("b"), nil},
		"… while another pod is away":             {newLog().evict("a").forced("b"), below},
		"a pod terminates without a request":      {newLog().ends("a"), gap},
		"a deletion that comes late":              {newLog().written().create("d").ready("d").repeated("a"), []disruptions.Rule{disruptions.Order}},
		"a place is lost":                         {keeping(true).cordon(true).sleep(time.Minute).evict("a"), place},
		"a place is lost, and no budget keeps it": {keeping(false).cordon(true).sleep(time.Minute).evict("a"), nil},
		"the node takes pods again":               {keeping(true).cordon(true).cordon(false).evict("a"), nil},
		"the node was closed a moment ago":        {keeping(true).cordon(true).evict("a").slow(2 * time.Second), nil},
		"a pod that asks for no place":            {keeping(true).cordon(true).sleep(time.Minute).asks("a", false).evict("a"), nil},
		"preemption from a closed node":           {keeping(true).cordon(true).sleep(time.Minute).delete("system:kube-scheduler", "a"), nil},
		"refused for the place":                   {keeping(true).repeat(20, "a").says(denied + "budget all keeps places, and no node would take the rebuilt pod"), nil},
		"refused before a native budget":          {newLog().repeat(20, "a").says(denied + "PodDisruptionBudget x needs 2 healthy pods and has 2"), nil},
		"a pod ends without a request":            {newLog().ends("a"), gap},
		"a pod comes from nowhere":                {newLog().nowhere(), gap},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { wantRules(t, test.log.check(), test.want...) })
	}
}

// TestKindsOfWorkloads compares the budgets of workloads of several kinds with what goes.
func TestKindsOfWorkloads(t *testing.T) {
	one := intstr.FromInt32(1)
	selects := disruptions.Budget{Selector: web(), MaxUnavailable: &one}
	of := func(group, kind string) disruptions.Budget {
		return disruptions.Budget{Target: disruptions.Owner{Group: group, Kind: kind, Name: "web"}, MaxUnavailable: &one}
	}
	three := func(group, kind string) *disruptions.Workload {
		return &disruptions.Workload{Group: group, Kind: kind, Name: "web", Replicas: 3}
	}
	unknown := func() *disruptions.Workload {
		return &disruptions.Workload{Group: "example.com", Kind: "Unknown", Name: "web"}
	}
	ofRollout := three("apps", "ReplicaSet")
	ofRollout.Owner = disruptions.Owner{UID: "u-rollout", Group: "argoproj.io", Kind: "Rollout", Name: "web"}
	named, counted, ignores := selects, selects, selects
	named.Total, counted.IgnoreScale = 3, true
	ignores.Ignored = &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "true"}}
	canary := func() *log {
		return logOf(three("apps", "ReplicaSet"), ignores).
			write(person, "patch", "", "a", func(p *disruptions.Pod) { p.Labels["canary"] = "true" })
	}
	tests := map[string]struct {
		log  *log
		want []disruptions.Rule
	}{
		"a Job":                               {logOf(three("batch", "Job"), of("batch", "Job")).evict("a"), nil},
		"a Job, two pods":                     {logOf(three("batch", "Job"), of("batch", "Job")).evict("a").evict("b"), below},
		"a CloneSet":                          {logOf(three("apps.kruise.io", "CloneSet"), of("apps.kruise.io", "CloneSet")).evict("a"), nil},
		"a CloneSet, two pods":                {logOf(three("apps.kruise.io", "CloneSet"), of("apps.kruise.io", "CloneSet")).evict("a").evict("b"), below},
		"a CloneSet that is scaled in":        {logOf(three("apps.kruise.io", "CloneSet"), of("apps.kruise.io", "CloneSet")).scale(2).evict("a").evict("b"), nil},
		"selected pods of a CloneSet":         {logOf(three("apps.kruise.io", "CloneSet"), selects).evict("a").evict("b"), below},
		"a Rollout, by its ReplicaSet":        {logOf(ofRollout, of("argoproj.io", "Rollout")).evict("a").evict("b"), below},
		"another workload":                    {logOf(three("apps.kruise.io", "CloneSet"), of("apps", "StatefulSet")).evict("a").evict("b"), nil},
		"an owner that the log does not show": {logOf(unknown(), selects).evict("a"), gap},
		"… and a budget with a size":          {logOf(unknown(), named).evict("a").evict("b"), below},
		"… one pod":                           {logOf(unknown(), named).evict("a"), nil},
		"… and a budget that counts its pods": {logOf(unknown(), counted).evict("a"), nil},
		"an ignored pod counts":               {canary().evict("a").evict("b"), below},
		"an ignored pod may go":               {canary().evict("b").evict("a"), nil},
		"an ignored pod is available":         {canary().evict("b"), nil},
		"pods that are given to an absent owner, one after the other": {newLog().give("a").give("b"), below},
		"… one of them":                     {newLog().give("a").collect("a").create("d").ready("d").give("b"), nil},
		"… beside an owner that exists":     {newLog().give("a", "u-web").give("b", "u-web"), nil},
		"… from which they are taken later": {newLog().give("a", "u-web").give("b", "u-web").give("a").give("b"), below},
		"a Job deletes its pods":            {logOf(&disruptions.Workload{Group: "batch", Kind: "Job", Name: "web", Replicas: 3}, disruptions.Budget{Selector: web(), MaxUnavailable: &one}).delete(jobCtl, "a").delete(jobCtl, "b"), nil},
		"the deadline of a node":            {newLog().nodeEnds().evict("a").delete("system:serviceaccount:karpenter:karpenter", "b"), nil},
		"Karpenter before the deadline":     {newLog().evict("a").delete("system:serviceaccount:karpenter:karpenter", "b"), below},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { wantRules(t, test.log.check(), test.want...) })
	}
}

func (l *log) nodeEnds() *log {
	return l.add(disruptions.Event{User: person, Verb: "delete", Resource: "nodes", Name: "n1", Node: &disruptions.Node{Name: "n1", Deleting: true}})
}

// give gives a pod to a controller that does not exist, and to further owners.
func (l *log) give(name string, others ...string) *log {
	return l.write(person, "patch", "", name, func(p *disruptions.Pod) {
		p.Owner, p.Others = disruptions.Owner{UID: "absent", Group: "apps", Kind: "ReplicaSet", Name: "absent"}, others
	})
}

func (l *log) collect(name string) *log {
	return l.delete("system:serviceaccount:kube-system:generic-garbage-collector", name)
}

// repeat is a drain that is refused a number of times, each 5 s.
func (l *log) repeat(times int, name string) *log {
	for range times {
		l.sleep(4 * time.Second).refused(name)
	}
	return l
}

// deleteUnseen is a deletion whose answer has no version.
func (l *log) deleteUnseen(name string) *log {
	uid := "gone"
	if p := l.pods[name]; p != nil {
		uid = p.UID
	}
	return l.add(disruptions.Event{User: person, Verb: "delete", Resource: "pods", Name: name, UID: uid})
}

// evicted is an eviction, and counts its write, which the answer does not show.
func (l *log) evicted(name string) *log { return l.evict(name).written() }

// written counts a write that the log does not show.
func (l *log) written() *log {
	l.version++
	l.unseen = l.version
	return l
}

// repeated is a deletion of a pod that terminates already: the answer has the version of then.
func (l *log) repeated(name string) *log {
	l.delete(person, name)
	l.events[len(l.events)-1].Version = l.unseen
	return l
}

// collection is one request that deletes pods, whose answer shows them as they were.
func (l *log) collection(names ...string) *log {
	for _, name := range names {
		l.add(disruptions.Event{User: person, Verb: "deletecollection", Resource: "pods", Name: name, UID: l.pods[name].UID}).slow(10 * time.Second)
	}
	return l
}

func (l *log) collectionFails() *log {
	return l.add(disruptions.Event{User: person, Verb: "deletecollection", Resource: "pods", Code: 429, Message: denial})
}

const jobCtl = "system:serviceaccount:kube-system:job-controller"

const taintCtl = "system:serviceaccount:kube-system:taint-eviction-controller"

var (
	below   = []disruptions.Rule{disruptions.Below}
	short   = []disruptions.Rule{disruptions.Short}
	stalled = []disruptions.Rule{disruptions.Stalled}
	gap     = []disruptions.Rule{disruptions.Gap}
	place   = []disruptions.Rule{disruptions.Place}
)

const denied = `admission webhook "guarded.pods.limpet.dev" denied the request: `

// keeping is newLog with pods that ask for their place, and a budget that keeps places or not.
func keeping(keeps bool) *log {
	one := intstr.FromInt32(1)
	l := newLog().budget(disruptions.Budget{UID: "u-all", Name: "all", Selector: web(), MaxUnavailable: &one, KeepPlace: keeps})
	return l.asks("a", true).asks("b", true).asks("c", true)
}

func (l *log) asks(name string, keeps bool) *log {
	return l.write(person, "patch", "", name, func(p *disruptions.Pod) { p.KeepsPlace = keeps })
}

func (l *log) cordon(closed bool) *log {
	return l.add(disruptions.Event{User: person, Verb: "patch", Resource: "nodes", Name: "n1", Node: &disruptions.Node{Name: "n1", Unschedulable: closed}})
}

func (l *log) taint(key string) *log {
	return l.add(disruptions.Event{User: person, Verb: "patch", Resource: "nodes", Name: "n1", Node: &disruptions.Node{Name: "n1", Taints: []string{key}}})
}

func (l *log) image(name string) *log {
	return l.write(person, "patch", "", name, func(p *disruptions.Pod) { p.Images = "two" })
}

func (l *log) restarted(name string) *log {
	return l.status(name, func(p *disruptions.Pod) { p.Runs = "second" })
}

func (l *log) relabel(name string) *log {
	return l.write(person, "patch", "", name, func(p *disruptions.Pod) { p.Labels = map[string]string{"app": "other"} })
}

func (l *log) says(message string) *log {
	for i := range l.events {
		l.events[i].Message = message
	}
	return l
}

func (l *log) budgetGone() *log {
	l.version++ // etcd counts the deletion, and the answer does not show it
	return l.add(disruptions.Event{User: person, Verb: "delete", Resource: "podunavailablebudgets", Name: "all"}).gone()
}

func (l *log) gone() *log {
	l.events[len(l.events)-1].Budget = &disruptions.Budget{UID: "u-all", Gone: true}
	return l
}

// nowhere shows a pod that the log did not create.
func (l *log) nowhere() *log {
	l.pods["x"] = &disruptions.Pod{UID: "u-x", Namespace: "default", Name: "x"}
	return l.status("x", func(*disruptions.Pod) {})
}

// An API server that is killed does not log what it has just stored.
func TestRequestsThatAKilledServerDidNotLog(t *testing.T) {
	deleted := newLog().status("a", func(p *disruptions.Pod) { p.Deleting, p.Deleted = true, begin.Add(time.Minute) })
	created := newLog().nowhere()
	created.events[len(created.events)-1].Pod.Created = begin.Add(time.Minute)
	for name, tc := range map[string]struct {
		killed []time.Duration
		want   int // violations
	}{
		"no kill":                  {nil, 1},
		"a kill a moment later":    {[]time.Duration{60500 * time.Millisecond}, 0},
		"one of two kills":         {[]time.Duration{time.Second, 69 * time.Second}, 0},
		"a kill before":            {[]time.Duration{59 * time.Second}, 1},
		"a kill a long time later": {[]time.Duration{71 * time.Second}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := disruptions.Options{Lag: 500 * time.Millisecond, Replacement: time.Minute}
			for _, after := range tc.killed {
				o.Killed = append(o.Killed, begin.Add(after))
			}
			for what, l := range map[string]*log{"deletion": deleted, "creation": created} {
				found := disruptions.Check(l.events, o)
				if len(found.Violations) != tc.want || found.Unlogged != 1-tc.want {
					t.Errorf("%s: %d violations and %d requests that were not logged, want %d: %v",
						what, len(found.Violations), found.Unlogged, tc.want, found.Violations)
				}
			}
		})
	}
}

// mark gives a pod a label that makes it unavailable.
func (l *log) mark(name string) *log {
	return l.write(person, "patch", "", name, func(p *disruptions.Pod) { p.Labels["unavailable-pod.kruise.io/x"] = "" })
}

// pending shows a pod of which no container has started.
func (l *log) pending(name string) *log {
	return l.status(name, func(p *disruptions.Pod) { p.Pending = true })
}

func (l *log) started(name string) *log {
	return l.status(name, func(p *disruptions.Pod) { p.Pending = false })
}

// noBudget is newLog without its budget.
func noBudget() *log {
	l := newLog()
	for i, e := range l.events {
		if e.Budget != nil {
			l.events = append(l.events[:i], l.events[i+1:]...)
			return l
		}
	}
	return l
}

// scaledOut is a log in which a fourth pod was needed ten seconds ago, and became Ready just now.
func scaledOut() *log { return newLog().scale(4).sleep(10 * time.Second).create("d").ready("d") }

// big has units for two pods.
func big() *log {
	two := intstr.FromInt32(2)
	return newLog().budget(disruptions.Budget{UID: "u-all", Name: "all", Selector: web(), MaxUnavailable: &two})
}
