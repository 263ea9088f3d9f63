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
	// Generation is the newest generation that the kubelet has seen; 0 where it tells none.
	Generation int64
	// ReadySince is the last transition of the condition Ready; zero for a pod that is not ready.
	ReadySince time.Time
}

// Observe removes the entries that have ended, and returns them. An entry ends when its pod
// is seen gone, terminating or in a terminal phase, when its changed pod is seen ready again,
// or when it expires. The book then notes which versions of pods a replica must know to
// decide. Waiting requests that came no more are dropped, too.
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

// ends tells whether an entry has ended, and by which version of a pod.
func ends(e Entry, seen Seen, now time.Time) (version string, ok bool) {
	pod, found := seen.Pods[e.UID]
	switch {
	case found && pod.Going, found && e.Use == Changed && pod.changedSince(e):
		return cmp.Or(pod.Version, seen.Version), true
	case !now.Before(e.Expires):
		return seen.Version, true
	case found && pod.Gone: // a cache that is older than the pod does not show it, either
		return seen.Version, isVersion(e.Version) && !newer(e.Version, seen.Version)
	}
	return "", false
}

// Refresh brings the entries of changed pods up to date whose change is not seen yet: such a pod
// may have become Ready, for the first time or again, since the decision. It would otherwise count
// as Ready again as soon as its change is seen, before its containers are restarted. The result is
// false when nothing changed.
func Refresh(b Book, seen Seen) (Book, bool) {
	fresh := false
	for uid, e := range b.Entries {
		pod, found := seen.Pods[uid]
		unchanged := found && !pod.Gone && !pod.Going && pod.Generation > 0 && pod.Generation <= e.Generation
		if e.Use != Changed || !unchanged || pod.ReadySince.IsZero() || pod.ReadySince.Equal(e.ReadySince) {
			continue
		}
		if !fresh {
			b.Entries, fresh = maps.Clone(b.Entries), true
		}
		e.ReadySince = pod.ReadySince
		b.Entries[uid] = e
	}
	return b, fresh
}

// changedSince tells whether the pod was changed and became ready after the decision. The
// times are both the pod's own, so that clocks need not agree. Of a pod that was not Ready at the
// decision, and was not seen Ready before its change, nothing tells: its entry expires.
func (p PodSeen) changedSince(e Entry) bool {
	return (p.Generation == 0 || p.Generation > e.Generation) && !e.ReadySince.IsZero() && p.ReadySince.After(e.ReadySince)
}
