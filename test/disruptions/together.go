package disruptions

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// absence is a time for which no pod of a name was Ready.
type absence struct {
	pod      string
	from, to time.Time
	by       string // the request that took the pod away; "" for a loss
	judged   bool
	open     bool
}

func (a absence) covers(at time.Time) bool {
	return !at.Before(a.from) && (a.to.IsZero() || at.Before(a.to))
}

// Together reads the logs of several clusters on one machine, and returns what violates a bound of pods that are away at a
// time: each request that took a pod away with more others of its group than that. group reports which pods count, and for
// which of them requests are judged; requests is how many of these took a pod. Pods that went because no
// webhook answered in time do not count. A pod is away from the answer to the request until the API server receives what makes
// a pod of its name Ready: a controller that allows the next one has seen that.
func Together(logs map[string][]Event, most int, group func(cluster, namespace, pod string) (counts, judged bool)) (violations []string, requests int) {
	all := allAbsences(logs, group)
	for _, a := range all {
		if a.by == "" || !a.judged {
			continue
		}
		if requests++; a.open {
			continue
		}
		var away []string
		for _, other := range all {
			if other.pod != a.pod && !other.open && other.covers(a.from) {
				away = append(away, strings.TrimSpace(other.pod+" since "+clock(other.from)+" "+other.by))
			}
		}
		if len(away) >= most {
			violations = append(violations, fmt.Sprintf("%s: pod %s goes %s, and away are %s", clock(a.from), a.pod, a.by, strings.Join(away, ", ")))
		}
	}
	return violations, requests
}

func allAbsences(logs map[string][]Event, group func(cluster, namespace, pod string) (counts, judged bool)) (all []absence) {
	pods, judged := map[string][]Event{}, map[string]bool{}
	for cluster, events := range logs {
		for _, e := range events {
			if e.Resource != "pods" || e.Code >= 300 || e.DryRun {
				continue
			}
			if counts, judges := group(cluster, e.Namespace, e.Name); counts {
				name := strings.Join([]string{cluster, e.Namespace, e.Name}, "/")
				pods[name], judged[name] = append(pods[name], e), judges
			}
		}
	}
	for name, events := range pods {
		for _, a := range absences(name, events) {
			a.judged = judged[name]
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b absence) int { return a.from.Compare(b.from) })
	return all
}

// absences returns the times for which a pod was away, by its events in the order in which they were received.
func absences(name string, events []Event) (all []absence) {
	slices.SortStableFunc(events, func(a, b Event) int { return a.Received.Compare(b.Received) })
	away := false
	for _, e := range events {
		asked := e.endsUnseen() || strings.HasPrefix(e.Verb, "delete")
		switch ready := e.Pod != nil && e.Pod.Ready && !e.Pod.Deleting; {
		case away && ready && !asked:
			last := &all[len(all)-1]
			last.to, away = e.Received, false
			if last.from.After(last.to) { // a busy server may log an answer after the client has sent the next request
				last.from = last.to
			}
		case !away && asked:
			all, away = append(all, absence{pod: name, from: e.Done, by: fmt.Sprintf("by %s of %s", strings.TrimSpace(e.Verb+" "+e.Subresource), e.User), open: e.Open}), true
		case !away && e.Pod != nil && !ready:
			all, away = append(all, absence{pod: name, from: e.Done}), true
		}
	}
	return all
}
