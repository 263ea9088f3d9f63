package scalein_test

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/limpet-io/limpet/internal/spread/scalein"
)

// live is a pod as the ReplicaSet controller sees it.
type live struct {
	uid, zone, host    string // host is "" before the pod is bound
	running, ready     bool
	since, created     time.Time
	restarts           int
	cost, mark         string
	rank, bucket, born int // while victims are chosen
}

// victims sorts active pods of one ReplicaSet as its controller does before it deletes some
// (Kubernetes 1.33 to 1.36), those that go first at the front. No pod of the model is in an
// unknown phase or has a sidecar.
func victims(pods []*live, now time.Time) []*live {
	onHost := map[string]int{}
	for _, p := range pods {
		onHost[p.host]++
	}
	for _, p := range pods {
		p.rank, p.bucket, p.born = onHost[p.host], bucket(now.Sub(p.since)), bucket(now.Sub(p.created))
	}
	out := slices.Clone(pods)
	slices.SortStableFunc(out, goesFirst)
	return out
}

func goesFirst(a, b *live) int {
	return cmp.Or(
		before(a.host == "", b.host == ""),                                  // 1. not assigned
		before(!a.running, !b.running),                                      // 2. pending
		before(!a.ready, !b.ready),                                          // 3. not Ready
		cmp.Compare(value(a), value(b)),                                     // 4. the lower deletion cost
		cmp.Compare(b.rank, a.rank),                                         // 5. more pods on the node
		lately(a.ready, a.since, b.since, a.bucket, b.bucket, a.uid, b.uid), // 6. Ready for a shorter time
		cmp.Compare(b.restarts, a.restarts),                                 // 7. more restarts
		lately(true, a.created, b.created, a.born, b.born, a.uid, b.uid),    // 8. younger
	)
}

func before(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func value(p *live) int32 {
	n, _ := scalein.Parse(p.cost)
	return n
}

// lately compares two moments by powers of two of their age. Those of one power are in the order
// of the UIDs, which is as good as random.
func lately(counts bool, a, b time.Time, bucketA, bucketB int, uidA, uidB string) int {
	if !counts || a.Equal(b) {
		return 0
	}
	return cmp.Or(cmp.Compare(bucketA, bucketB), cmp.Compare(uidA, uidB))
}

func bucket(age time.Duration) int {
	if age <= 0 {
		return -1
	}
	return int(math.Log2(float64(age)))
}
