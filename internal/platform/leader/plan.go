package leader

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
)

const (
	// duration is how long a Lease holds after a renewal. Other replicas wait as long.
	duration = 10 * time.Second
	// retry is the time between two looks at the Lease, and between two renewals.
	retry = 2 * time.Second
	// attempt is the longest time for one request.
	attempt = 3 * time.Second
	// term is how long this replica leads after it began a renewal. It ends before the Lease, so
	// that requests which were sent by then are over when another replica leads.
	term = duration - attempt
)

// step is what a replica does about the Lease.
type step int

const (
	follow  step = iota // another replica leads
	take                // the Lease is free, its own, or was not renewed in time
	deposed             // this replica led, and another one leads now
)

// view is what a replica knows of the Lease.
type view struct {
	// lease is nil while there is none.
	lease *coordinationv1.Lease
	self  string
	// led tells that this replica has led.
	led bool
	// seen is since when the lease is known unchanged, without a moment in which the API server
	// did not answer.
	seen time.Time
	now  time.Time
}

// plan decides from the view. Time in which the API server did not answer does not count: no
// leader could renew its Lease then, and the one that led before goes on.
func plan(v view) step {
	if v.lease == nil {
		return take
	}
	holder := ptr.Deref(v.lease.Spec.HolderIdentity, "")
	holds := time.Duration(ptr.Deref(v.lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	switch {
	case holder == "" || holder == v.self:
		return take
	case v.led:
		return deposed
	case v.now.Before(v.seen.Add(holds)):
		return follow
	}
	return take
}
