package spread

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// UnknownWants is the number of pods of an owner that does not tell how many it wants.
const UnknownWants = -1

// Facts are what a replica knows when a pod is created.
type Facts struct {
	Spread Spread
	// Key of the pod: the UID of the creation request, or the pod's name where it is given.
	Key string
	// Owner is the UID of the pod's controller.
	Owner string
	// Pods counts the active pods of the revision by subset. A pod of the same name as the new one
	// does not count: the creation proves that it is gone.
	Pods map[string]int32
	// OwnerPods counts the active pods of the owner, whatever their subset.
	OwnerPods int32
	// Wants is how many pods the owner wants; UnknownWants where it does not tell.
	Wants int32
	// Entries of the revision in the book.
	Entries []Entry
	// Seen reports whether the replica has seen the pod of an entry, also if the pod is gone since.
	Seen func(key string) bool
	// Before reports whether an entry was in the book when the request came. Only such an entry can be
	// that of a refused creation: the others are made by creations beside this one. Nil is for all.
	Before func(key string) bool
	// Behind tells that another replica knew newer pods than this one when it made an entry. Then no
	// entry is taken over: its pod may be among those.
	Behind bool

	Pod   *corev1.Pod
	Node  *corev1.Node
	Place []corev1.NodeSelectorRequirement
	Room  bool
}

// InputOf counts the slots that are in use, and finds out what an earlier creation left.
func InputOf(f Facts) Input {
	in := Input{Spread: f.Spread, Slots: map[string]Slots{}, Pod: f.Pod, Node: f.Node, Place: f.Place, Room: f.Room}
	for subset, n := range f.Pods {
		in.Slots[subset] = Slots{Pods: n}
	}
	total := int64(f.OwnerPods)
	for i := range f.Entries {
		e := &f.Entries[i]
		if e.Key == f.Key {
			in.Earlier = e.Subset
			continue
		}
		if f.Seen(e.Key) {
			continue
		}
		s := in.Slots[e.Subset]
		s.Booked++
		in.Slots[e.Subset] = s
		if e.Owner != f.Owner {
			continue
		}
		total++
		if !f.Behind && (f.Before == nil || f.Before(e.Key)) && (in.Oldest == nil || older(e, in.Oldest)) {
			in.Oldest = e
		}
	}
	in.Surplus = f.Wants >= 0 && total >= int64(f.Wants)
	return in
}

// Replaces reports whether a creation may replace a pod whose deletion the caches do not show yet, for
// an owner that does not tell how many pods it wants: its workload has as many as it wants already.
// A creation beside the others shows the same while the workload is updated, so that such a creation
// may wait, and takes over no entry. pods are all pods and entries of the workload.
func Replaces(f Facts, in Input, d Decision, pods int64, size int32) bool {
	return f.Wants == UnknownWants && in.Earlier == "" && d.Passes(in) && pods >= int64(size)
}

// older reports whether an entry was made before another one.
func older(a, b *Entry) bool {
	if !a.Since.Equal(b.Since) {
		return a.Since.Before(b.Since)
	}
	return a.Key < b.Key
}

// Wants returns how many active pods a ReplicaSet or a Job wants at the most, or UnknownWants
// for other owners. Neither creates a pod while it has that many.
func Wants(owner runtime.Object) int32 {
	switch o := owner.(type) {
	case *appsv1.ReplicaSet:
		return ptr.Deref(o.Spec.Replicas, 1)
	case *batchv1.Job:
		wants := ptr.Deref(o.Spec.Parallelism, 1)
		if o.Spec.Completions != nil {
			wants = min(wants, max(*o.Spec.Completions-o.Status.Succeeded, 0))
		}
		return wants
	default:
		return UnknownWants
	}
}
