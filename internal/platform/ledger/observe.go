package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Seen is what a replica knows of the pods.
type Seen struct {
	// Version is the newest resource version of a pod that is known.
	Version string
	// Pods by their UID. A pod that is not among them was not looked at.
	Pods map[string]PodSeen
}

// PodSeen is what a replica knows of one pod.
type PodSeen struct {
	Version string
	// Gone: there is no such pod.
	Gone bool
	// Going: the pod is terminating or in a terminal phase.
	Going bool
	// Generation of the pod; 0 where the API server gives none.
	Generation int64
	// Pending: the kubelet has not seen the generation, or puts the resize of the entry off. Resizing:
	// the kubelet makes that resize. Infeasible: the kubelet will never make it.
	Pending, Resizing, Infeasible bool
	// Silent: the node of the pod is not Ready, so that the kubelet tells nothing.
	Silent bool
	// Restarts is how often the containers were restarted together.
	Restarts int64
	// Grace is how long a container may take to stop, and until it is known that the kubelet is silent.
	Grace time.Duration
}

// Observe removes the entries that have ended, and returns them. An entry ends when its pod is seen
// gone, terminating or in a terminal phase, when its change is seen to be over, or when it expires.
// The book then notes which versions of pods a replica must know to decide. Waiting requests that
// came no more are dropped, too.
func Observe(b Book, seen Seen, now time.Time) (Book, []Entry) {
	var ended []Entry
	for uid, e := range b.Entries {
		version, ok := ends(e, seen, now)
		if !ok {
			continue
		}
		if ended == nil {
			b.Entries = maps.Clone(b.Entries)
		}
		delete(b.Entries, uid)
		ended = append(ended, e)
		b.Seen = newest(version, b.Seen)
	}
	slices.SortFunc(ended, func(a, b Entry) int { return cmp.Compare(a.UID, b.UID) })
	b.Waiting = stillWaiting(b.Waiting, now)
	return b, ended
}

// ends reports whether an entry has ended, and by which version of a pod.
func ends(e Entry, seen Seen, now time.Time) (version string, ok bool) {
	pod, found := seen.Pods[e.UID]
	late := !now.Before(e.Expires)
	switch {
	case found && pod.Going, found && !pod.Gone && (e.Use.InPlace() || late && e.Use == Leaving) && pod.done(e, late):
		return cmp.Or(pod.Version, seen.Version), true
	case late && (!e.Use.changes() || pod.Gone):
		return seen.Version, true
	case found && pod.Gone: // a cache that is older than the pod does not show it, either
		return seen.Version, isVersion(e.Version) && !newer(e.Version, seen.Version)
	}
	return "", false
}

// done reports whether the change of a pod is over. The API server writes a change onto the version that
// was judged, or judges it again: so a later version of the pod shows what came of it. A later version
// of the same generation has nothing to restart: the change failed, or the pod itself shows it, as a
// label or a condition. After a change of the spec the kubelet stops all containers that it restarts
// before it starts the first one, so that from then on the pod itself shows whether it is Ready.
func (p PodSeen) done(e Entry, late bool) bool {
	later := newer(p.Version, e.Version)
	switch {
	case !p.written(e):
		return late
	case later && e.Use == Changed && p.Generation > 0 && p.Generation == e.Generation:
		return true
	case p.Pending:
		return false
	}
	return later && p.Infeasible || p.Restarts > e.Restarts || late && e.Use == Restarting && !p.Silent
}

// written reports whether something may have been written since the first decision of an entry. A generation that is newer
// than that of the entry tells it, where a later decision knew a later version.
func (p PodSeen) written(e Entry) bool {
	return newer(p.Version, e.Version) || p.Generation > e.Generation
}

// Refresh brings the entries of changed pods up to date. A pod that was changed, and let go by a
// request that failed, is a changed pod again. While the kubelet puts a change off, further
// restarts have other causes. A kubelet that has seen the change stops the containers within their
// grace period: where none was restarted long after that, and the kubelet was not silent, the change
// restarts none, such as one that was taken back. The result is false when nothing changed.
func Refresh(b Book, seen Seen, now time.Time) (Book, bool) {
	fresh := false
	for uid, e := range b.Entries {
		pod, found := seen.Pods[uid]
		if !found || pod.Gone || e.Use.InPlace() && !pod.written(e) {
			continue
		}
		next := e
		switch {
		case e.Use == Leaving && !now.Before(e.Expires):
			next.Use = Changed
		case !e.Use.InPlace():
		case pod.Pending:
			next.Use, next.Restarts = Changed, max(e.Restarts, pod.Restarts)
		case pod.Resizing, pod.Silent:
			next.Use = Changed
		case e.Use == Changed:
			next.Use, next.Expires = Restarting, stored(latest(e.Expires, now.Add(pod.Grace+Bound)))
		}
		if next == e || pod.Going || pod.done(e, false) {
			continue
		}
		if !fresh {
			b.Entries, fresh = maps.Clone(b.Entries), true
		}
		b.Entries[uid] = next
	}
	return b, fresh
}
