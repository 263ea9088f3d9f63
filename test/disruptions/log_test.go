package disruptions_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/test/disruptions"
)

var begin = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// log is a hand-made log. Each event comes a second after the last one.
type log struct {
	events  []disruptions.Event
	now     time.Time
	version uint64
	unseen  uint64 // a version that no event has
	pods    map[string]*disruptions.Pod
	owner   disruptions.Owner // of the pods
}

const (
	person = "someone"
	rsCtl  = "system:serviceaccount:kube-system:replicaset-controller"
	denial = `admission webhook "pods.guard.limpet.dev" denied the request: budget all: needs 2 available pods and has 2`
)

// newLog begins with a Deployment of three Ready pods a, b and c and a budget of one.
func newLog() *log {
	one := intstr.FromInt32(1)
	replicaSet := disruptions.Workload{Group: "apps", Kind: "ReplicaSet", Name: "web", Replicas: 3}
	return logOf(&replicaSet, disruptions.Budget{Selector: web(), MaxUnavailable: &one})
}

// logOf begins with a workload of three Ready pods a, b and c, and a budget. The log does not
// show a workload without replicas.
func logOf(w *disruptions.Workload, b disruptions.Budget) *log {
	l := &log{now: begin, pods: map[string]*disruptions.Pod{}}
	w.UID, w.Namespace = "u-web", "default"
	l.owner = disruptions.Owner{UID: w.UID, Group: w.Group, Kind: w.Kind, Name: w.Name}
	if w.Replicas > 0 {
		l.add(disruptions.Event{User: person, Verb: "create", Resource: "workloads", Name: w.Name, Workload: w})
	}
	b.UID, b.Name = "u-all", "all"
	l.budget(b)
	for _, name := range []string{"a", "b", "c"} {
		l.create(name).ready(name)
	}
	return l
}

func web() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
}

// add appends an event that took ten milliseconds.
func (l *log) add(e disruptions.Event) *log {
	l.now = l.now.Add(time.Second)
	e.Namespace = "default"
	if e.Received.IsZero() {
		e.Received = l.now.Add(-10 * time.Millisecond)
	}
	e.Done = l.now
	if e.Code == 0 {
		e.Code = 200
	}
	if e.Pod != nil || e.Workload != nil || e.Budget != nil || e.Node != nil {
		l.version++
		e.Version = l.version
	}
	l.events = append(l.events, e)
	return l
}

func (l *log) scale(n int) *log {
	return l.add(disruptions.Event{User: person, Verb: "update", Resource: "replicasets", Name: "web", Workload: &disruptions.Workload{
		UID: "u-web", Namespace: "default", Group: "apps", Kind: "ReplicaSet", Name: "web", Replicas: n,
	}})
}

func (l *log) budget(b disruptions.Budget) *log {
	b.Namespace = "default"
	return l.add(disruptions.Event{User: person, Verb: "create", Resource: "podunavailablebudgets", Name: b.Name, Budget: &b})
}

func (l *log) create(name string) *log {
	l.pods[name] = &disruptions.Pod{
		UID: fmt.Sprintf("u-%s-%d", name, l.version), Namespace: "default", Name: name, Node: "n1", Labels: map[string]string{"app": "web"},
		Owner: l.owner, Images: "one", Runs: "first",
	}
	return l.write(rsCtl, "create", "", name, func(*disruptions.Pod) {})
}

// write changes a pod.
func (l *log) write(who, verb, subresource, name string, edit func(*disruptions.Pod)) *log {
	edit(l.pods[name])
	shown := *l.pods[name]
	shown.Labels = maps.Clone(shown.Labels)
	return l.add(disruptions.Event{User: who, Verb: verb, Resource: "pods", Subresource: subresource, Name: name, Pod: &shown})
}

func (l *log) status(name string, edit func(*disruptions.Pod)) *log {
	return l.write("system:node:n1", "patch", "status", name, edit)
}

func (l *log) ready(name string) *log {
	return l.status(name, func(p *disruptions.Pod) { p.Ready, p.ReadySince = true, l.now.Add(time.Second) })
}

func (l *log) unready(name string) *log {
	return l.status(name, func(p *disruptions.Pod) { p.Ready = false })
}

func (l *log) delete(who, name string) *log {
	return l.write(who, "delete", "", name, func(p *disruptions.Pod) { p.Deleting = true })
}

// evict is an eviction, whose answer has no version.
func (l *log) evict(name string) *log {
	return l.add(disruptions.Event{User: person, Verb: "create", Resource: "pods", Subresource: "eviction", Name: name, Code: 201})
}

func (l *log) refused(name string) *log {
	return l.add(disruptions.Event{User: person, Verb: "create", Resource: "pods", Subresource: "eviction", Name: name, Code: 429, Message: denial})
}

// ends is the last status that the kubelet writes.
func (l *log) ends(name string) *log {
	return l.status(name, func(p *disruptions.Pod) { p.Deleting = true })
}

// forced deletes a pod without grace. The kubelet patches the pod after the first write, and changes nothing.
func (l *log) forced(name string) *log {
	l.ends(name).slow(10 * time.Millisecond)
	return l.delete(person, name).slow(2 * time.Second)
}

func (l *log) sleep(d time.Duration) *log { l.now = l.now.Add(d); return l }

// slow lets the last event have begun earlier.
func (l *log) slow(d time.Duration) *log {
	last := &l.events[len(l.events)-1]
	last.Received = last.Done.Add(-d)
	return l
}

func (l *log) by(groups ...string) *log {
	l.events[len(l.events)-1].Groups = groups
	return l
}

// check checks the log with the bounds of the storms.
func (l *log) check() disruptions.Result {
	return disruptions.Check(l.events, disruptions.Options{Lag: 500 * time.Millisecond, Replacement: time.Minute})
}

// conforming is a log of most ways in which pods go, with nothing wrong in it.
func conforming() *log {
	l := newLog()
	l.evict("a").ends("a").create("d").refused("b").ready("d")
	l.delete(person, "b").ends("b").refused("c").create("e").ready("e")
	l.unready("d").ready("d") // a crash
	l.scale(2).delete(rsCtl, "c").ends("c")
	l.delete(person, "d").ends("d").scale(3).create("f").ready("f").create("g").ready("g")
	l.sleep(5 * time.Minute).evict("f").ends("f").create("h").ready("h").evict("g").ends("g")
	return l
}

func rules(r disruptions.Result) map[disruptions.Rule]int {
	found := map[disruptions.Rule]int{}
	for _, v := range r.Violations {
		found[v.Rule]++
	}
	return found
}

func wantRules(t *testing.T, r disruptions.Result, want ...disruptions.Rule) {
	t.Helper()
	found := rules(r)
	for _, rule := range want {
		if found[rule] == 0 {
			t.Errorf("no violation of %s was found", rule)
		}
		delete(found, rule)
	}
	if len(found) > 0 {
		t.Errorf("violations: %v", r.Violations)
	}
}
