package placement

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/platform/cluster"
)

// Query asks for the counts of one moment.
type Query struct {
	Namespace string
	Owner     types.UID
	Spread    string
	// Together counts the pods of all owners of the spread. Otherwise each owner counts by itself.
	Together bool
	// Creations are the entries that may have become pods.
	Creations []Creation
}

// Creation is a creation on its way.
type Creation struct {
	Key string
	// After is the newest version of a pod that was known when the creation was allowed; "" where
	// there was no pod. A pod of a given name that was seen in an older version is a predecessor.
	After string
}

// View is what a tally has counted at one moment.
type View struct {
	// Version is the newest resource version of a pod that was counted.
	Version string
	// Subsets counts the active pods of the spread's subsets, by name.
	Subsets map[string]int32
	// Pods counts the active pods of the owner, with and without a subset.
	Pods int32
	// Others counts those of them that have no subset of the spread.
	Others int32
	// Unplaced changes whenever a pod of the owner changes that has no subset.
	Unplaced int64
	// Seen has the version of the pod of each creation that was seen, also if it is gone since.
	Seen map[string]string
	// Settled has those of them whose entries may end. An entry stays for a while after its pod was
	// seen: another replica that is behind counts the entry.
	Settled map[string]string
}

// lingers is how long an entry stays after its pod was seen.
const lingers = 2 * time.Second

// View returns counts that belong together: each creation is either seen and counted, or it is
// neither.
func (t *Tally) View(q Query) View {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	v := View{Version: t.version, Subsets: map[string]int32{}, Seen: map[string]string{}, Settled: map[string]string{}}
	owner := t.owners[ownerKey{q.Namespace, q.Owner}]
	if owner != nil {
		v.Pods, v.Others, v.Unplaced = owner.pods, owner.pods, owner.unplaced
		for p, n := range owner.placed {
			if p.spread == q.Spread {
				v.Others -= n
				v.Subsets[p.subset] = n
			}
		}
	}
	if q.Together {
		clear(v.Subsets)
		if all := t.spreads[spreadKey{q.Namespace, q.Spread}]; all != nil {
			for p, n := range all.placed {
				v.Subsets[p.subset] = n
			}
		}
	}
	for _, c := range q.Creations {
		s, ok := t.recent.get(creationKey{q.Namespace, c.Key})
		if ok && (!strings.HasPrefix(c.Key, NameKey("")) || c.After == "" || cluster.Behind(c.After, s.version)) {
			v.Seen[c.Key] = s.version
			if now.Sub(s.at) >= lingers {
				v.Settled[c.Key] = s.version
			}
		}
	}
	return v
}
