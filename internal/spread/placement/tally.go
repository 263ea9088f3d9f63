package placement

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/spread"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Needs is what a tally reads of pods.
func Needs() cluster.Needs {
	match := cluster.NamedAnnotations[*corev1.Pod](longestMatch, appsv1beta1.AnnotationMatchedSpread, appsv1beta1.AnnotationHomeSubset)
	return cluster.Needs{Objects: []cluster.Need{cluster.Of(cluster.Owners[*corev1.Pod], match, cluster.Phase, cluster.Verdict, cluster.PodNode)}}
}

// longestMatch is the length of the longest annotation that is read.
const longestMatch = 1024

// Tally counts pods.
type Tally struct {
	clock  clock.PassiveClock
	synced func() bool

	mu      sync.Mutex
	owners  map[ownerKey]*counts
	spreads map[spreadKey]*counts
	recent  recent
	refused recent // pods that were deleted while the scheduler found no node for them
	away    recent // pods that were deleted while they were not in their own subset
	version string
	changes int64         // that were counted
	changed chan struct{} // closed at the next event; nil while no caller waits
}

// ownerKey is the controller of a pod. Users choose the UID of an owner reference, so that the
// namespace belongs to the key.
type ownerKey struct {
	namespace string
	uid       types.UID
}

type spreadKey struct{ namespace, name string }

// counts are the active pods of one owner, or of one spread.
type counts struct {
	pods   int32
	placed map[place]int32
	// unplaced is the number of the last change of a pod that has no subset.
	unplaced int64
}

// place is what the annotation of a pod says.
type place struct{ spread, subset string }

// New makes a tally of no pods.
func New(clock clock.PassiveClock) *Tally {
	return &Tally{clock: clock, owners: map[ownerKey]*counts{}, spreads: map[spreadKey]*counts{}}
}

// Follow counts the pods of a cache. It must be called before the cache is filled.
func (t *Tally) Follow(ctx context.Context, informers cache.Informers) error {
	informer, err := informers.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	podOf := cluster.LastKnown[*corev1.Pod]
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { t.observe(nil, podOf(o)) },
		UpdateFunc: func(before, after any) { t.observe(podOf(before), podOf(after)) },
		DeleteFunc: func(o any) { t.observe(podOf(o), nil) },
	})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	t.synced = registration.HasSynced
	return nil
}

// Synced reports whether the tally has counted all pods that were there when it began.
func (t *Tally) Synced() bool { return t.synced() }

// Ready is a readiness check: a replica that has not counted the pods must not place any.
func (t *Tally) Ready(*http.Request) error {
	if !t.Synced() {
		return errUncounted
	}
	return nil
}

// observe counts the difference between two states of a pod; nil is a pod that does not exist.
func (t *Tally) observe(before, after *corev1.Pod) {
	was, is := stateOf(before), stateOf(after)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.note(before)
	t.note(after)
	if before != nil && after == nil {
		if _, refused := spread.Refused(before, time.Time{}); refused {
			t.refused.put(creationKey{before.Namespace, NameKey(before.Name)}, before.ResourceVersion, t.clock.Now())
		}
		if before.Annotations[appsv1beta1.AnnotationHomeSubset] != "" {
			t.away.put(creationKey{before.Namespace, NameKey(before.Name)}, before.ResourceVersion, t.clock.Now())
		}
	}
	if after != nil && (before == nil || before.UID != after.UID) {
		t.remember(after, is)
	}
	if was.equal(is) {
		return
	}
	t.count(was, -1)
	t.count(is, 1)
}

// note raises the version of the tally, and wakes the callers that wait.
func (t *Tally) note(pod *corev1.Pod) {
	if pod == nil {
		return
	}
	if t.version == "" || cluster.Behind(t.version, pod.ResourceVersion) {
		t.version = pod.ResourceVersion
	}
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// remember notes that the pod of a creation was seen. A pod that was there long before is not
// in any book.
func (t *Tally) remember(pod *corev1.Pod, s state) {
	now := t.clock.Now()
	if s.place == (place{}) || now.Sub(pod.CreationTimestamp.Time) > 5*remembered { // clocks may differ
		return
	}
	t.recent.put(creationKey{s.namespace, s.creation}, pod.ResourceVersion, now)
}

// count adds a pod to the counts, or takes it away.
func (t *Tally) count(s state, by int32) {
	if !s.active {
		return
	}
	t.changes++
	add(t.owners, s.ownerKey, s, by, t.changes)
	if s.place != (place{}) {
		add(t.spreads, spreadKey{s.namespace, s.place.spread}, s, by, t.changes)
	}
}

// add changes the counts of one owner or spread, and forgets those without pods.
func add[K comparable](in map[K]*counts, key K, s state, by int32, change int64) {
	c := in[key]
	if c == nil {
		c = &counts{}
		in[key] = c
	}
	if c.pods += by; c.pods == 0 {
		delete(in, key)
		return
	}
	if s.place == (place{}) {
		c.unplaced = change
		return
	}
	if n := c.placed[s.place] + by; n != 0 {
		if c.placed == nil {
			c.placed = map[place]int32{}
		}
		c.placed[s.place] = n
		return
	}
	delete(c.placed, s.place)
}

// Refused reports whether a pod of a name was deleted a short time ago while the scheduler found no node for it.
func (t *Tally) Refused(pod types.NamespacedName) bool { return t.deleted(&t.refused, pod) }

// FellBack reports whether a pod of a name was deleted a short time ago while it was not in its own subset.
func (t *Tally) FellBack(pod types.NamespacedName) bool { return t.deleted(&t.away, pod) }

func (t *Tally) deleted(among *recent, pod types.NamespacedName) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := among.get(creationKey{pod.Namespace, NameKey(pod.Name)})
	return ok && t.clock.Now().Sub(s.at) < remembered
}

// Changed returns a channel that is closed at the next event.
func (t *Tally) Changed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed
}

// remembered is how long a creation is remembered at least: longer than its entry lasts.
const remembered = time.Minute

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
