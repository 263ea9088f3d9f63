package disruptions

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// clockStep is how much two timestamps of one API server may contradict its versions.
const clockStep = 5 * time.Millisecond

// order returns the successful changes in the order in which etcd wrote them, with refusals
// among them by their time, and what contradicts a single order.
//
// An answer without a version, such as the answer to an eviction, was written at an unknown
// moment of its request. It comes as late as possible: before each change that was requested
// after the answer, and before the first change that shows its effect.
func order(events []Event) ([]Event, []Violation) {
	var versioned, others []Event
	for _, e := range events {
		switch {
		case e.DryRun:
		case e.Version > 0 && e.Code < 300:
			versioned = append(versioned, e)
		default:
			others = append(others, e)
		}
	}
	slices.SortStableFunc(versioned, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), a.Done.Compare(b.Done))
	})
	versioned, wrong := withoutRepeats(versioned)
	versioned, late := withoutLate(versioned, others)
	wrong = append(wrong, late...)
	slices.SortStableFunc(others, func(a, b Event) int { return a.Done.Compare(b.Done) })
	return merge(versioned, others), wrong
}

// withoutRepeats drops answers that repeat an earlier version of the same object: the request
// changed nothing.
func withoutRepeats(sorted []Event) ([]Event, []Violation) {
	var kept []Event
	var wrong []Violation
	for _, e := range sorted {
		if len(kept) > 0 && kept[len(kept)-1].Version == e.Version {
			if last := kept[len(kept)-1]; last.uid() != e.uid() {
				wrong = append(wrong, Violation{
					Rule: Order, At: e.Done, Version: e.Version, Pod: e.Name,
					Text: fmt.Sprintf("version %d was given to %s and to %s", e.Version, last.uid(), e.uid()),
				})
			}
			continue
		}
		kept = append(kept, e)
	}
	return kept, wrong
}

// withoutLate drops answers that came late for their version, and repeat a change that the log
// shows without a version: a deletion of a pod that an eviction has deleted. All other answers
// that came late contradict the order.
func withoutLate(sorted, others []Event) ([]Event, []Violation) {
	ends := endsOf(sorted, others)
	var kept []Event
	var wrong []Violation
	repeats := repeatsUnlogged(sorted)
	earliest := map[string]Event{} // by pod, of the later versions, the one that was answered first
	var first Event                // the same of all objects
	for _, e := range slices.Backward(sorted) {
		after := func(x Event) bool { return x.Version > 0 && x.Done.Before(e.Received.Add(-clockStep)) }
		late := after(first)
		if late && e.Pod != nil && e.deletes() && ends.unseen[e.Namespace+"/"+e.Name] {
			continue
		}
		kept = append(kept, e)
		if why := repeats[e.Version]; late && (why == "" || after(earliest[e.Pod.UID]) || why == toEnd && !ends.asked(e, first.Done)) {
			wrong = append(wrong, Violation{
				Rule: Order, At: e.Done, Version: e.Version, Pod: e.Name,
				Text: fmt.Sprintf("version %d was asked for at %s, and version %d was answered at %s", e.Version, clock(e.Received), first.Version, clock(first.Done)),
			})
		}
		if first.Version == 0 || e.Done.Before(first.Done) {
			first = e
		}
		if e.Pod != nil && (earliest[e.Pod.UID].Version == 0 || e.Done.Before(earliest[e.Pod.UID].Done)) {
			earliest[e.Pod.UID] = e
		}
	}
	slices.Reverse(kept)
	return kept, wrong
}

// podEnds are the requests of the log that delete pods, by namespace and name.
type podEnds struct {
	unseen map[string]bool      // by a request whose answer has no version
	first  map[string]time.Time // when the first request came
}

func endsOf(sorted, others []Event) podEnds {
	ends := podEnds{map[string]bool{}, map[string]time.Time{}}
	for _, e := range slices.Concat(sorted, others) {
		name := e.Namespace + "/" + e.Name
		if e.endsUnseen() {
			ends.unseen[name] = true
		}
		if known, ok := ends.first[name]; (e.deletes() || e.endsUnseen()) && (!ok || e.Received.Before(known)) {
			ends.first[name] = e.Received
		}
	}
	return ends
}

// asked reports whether a request to delete the pod of an event came before a moment.
func (p podEnds) asked(e Event, at time.Time) bool {
	first, ok := p.first[e.Namespace+"/"+e.Name]
	return ok && first.Before(at.Add(clockStep))
}

// The writes that the log may not have.
const (
	toNode = "to a node"
	toEnd  = "to its end"
)

// repeatsUnlogged returns versions of patches of pods that may have changed nothing: the version is of a write which the
// log does not have. The binding to a node is such a write, and the first of the two writes of a deletion without grace.
func repeatsUnlogged(sorted []Event) map[uint64]string {
	found := map[uint64]string{}
	last := map[string]*Pod{}
	for _, e := range sorted {
		if e.Pod == nil {
			continue
		}
		before := last[e.Pod.UID]
		switch {
		case before == nil || e.Verb != "patch":
		case before.Node == "" && e.Pod.Node != "":
			found[e.Version] = toNode
		case !before.Deleting && e.Pod.Deleting:
			found[e.Version] = toEnd
		}
		last[e.Pod.UID] = e.Pod
	}
	return found
}

// merge inserts the changes without a version.
func merge(versioned, others []Event) []Event {
	ends, latest := endings(versioned), make([]time.Time, len(versioned))
	for i, e := range versioned {
		latest[i] = e.Received
		if i > 0 && latest[i-1].After(e.Received) {
			latest[i] = latest[i-1]
		}
	}
	place := make([]int, len(others))
	for i, e := range others {
		place[i] = placeOf(e, latest, ends)
	}
	index := make([]int, len(others))
	for i := range index {
		index[i] = i
	}
	slices.SortStableFunc(index, func(a, b int) int { return cmp.Compare(place[a], place[b]) })
	var all []Event
	next := 0
	for i, e := range versioned {
		for ; next < len(index) && place[index[next]] <= i; next++ {
			all = append(all, others[index[next]])
		}
		all = append(all, e)
	}
	for ; next < len(index); next++ {
		all = append(all, others[index[next]])
	}
	return all
}

// placeOf returns the index of the first change that came after e for certain: its request
// came after the answer of e. latest has the newest request up to each change.
func placeOf(e Event, latest []time.Time, ends map[string][]*ending) int {
	place, _ := slices.BinarySearchFunc(latest, e.Done, time.Time.Compare)
	if !e.endsUnseen() {
		return place
	}
	for _, end := range ends[e.Namespace+"/"+e.Name] {
		if (e.UID == "" || e.UID == end.uid) && !end.explained && !end.at.Before(e.Received) && end.index < place {
			end.explained = true
			return end.index
		}
	}
	return place
}

// ending is the first change that shows a pod terminating, and did not cause it.
type ending struct {
	index     int
	at        time.Time
	uid       string
	explained bool // by an eviction
}

func endings(versioned []Event) map[string][]*ending {
	seen := map[string]bool{}
	found := map[string][]*ending{}
	for i, e := range versioned {
		if e.Pod == nil || !e.Pod.Deleting || seen[e.Pod.UID] {
			continue
		}
		seen[e.Pod.UID] = true
		if e.deletes() {
			continue
		}
		key := e.Pod.Namespace + "/" + e.Pod.Name
		found[key] = append(found[key], &ending{index: i, at: e.Done, uid: e.Pod.UID})
	}
	return found
}

// endsUnseen reports whether the event deleted a pod that the answer does not show as deleted.
func (e Event) endsUnseen() bool {
	return e.Code < 300 && e.Resource == "pods" && e.Pod == nil && (e.Subresource == "eviction" || e.UID != "")
}

// deletes reports whether the event is a deletion. The kubelet deletes pods that are
// terminating, and so causes nothing.
func (e Event) deletes() bool {
	return e.Verb == "delete" && !strings.HasPrefix(e.User, "system:node:")
}

// observes reports whether the event tells what a pod is like, and does not make it so.
func (e Event) observes() bool {
	return strings.HasPrefix(e.User, "system:node:") || e.User == "system:kube-controller-manager" || e.User == controllers+"node-controller"
}

// uid identifies the object of the answer.
func (e Event) uid() string {
	switch {
	case e.Pod != nil:
		return e.Pod.UID
	case e.Workload != nil:
		return e.Workload.UID
	case e.Budget != nil:
		return e.Budget.UID
	case e.Node != nil:
		return e.Node.Name
	}
	return e.Resource + "/" + e.Namespace + "/" + e.Name
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }
