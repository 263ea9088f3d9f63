package admit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fair"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/spread"
	"github.com/limpet-io/limpet/internal/spread/placement"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

const (
	// cacheWait is how long a creation waits for caches that seem to be behind.
	cacheWait = 500 * time.Millisecond
	// lookAgain is the time after which it looks again without an event.
	lookAgain = 20 * time.Millisecond
)

// outcome is what one look at the pods and the book says.
type outcome struct {
	spread.Decision
	rules spread.Spread
	// wait tells that the caches may be behind.
	wait bool
	// enter tells that the pod needs an entry, and book is the book with it.
	enter bool
	book  ledger.Book
}

// choose decides about the subset of a pod that is counted. A dry run neither waits nor writes.
func (p *placing) choose(ctx context.Context, dryRun bool) (outcome, error) {
	deadline := p.Clock.Now().Add(cacheWait)
	for {
		last := dryRun || !p.Clock.Now().Before(deadline)
		changed := p.Tally.Changed()
		o, err := p.try(ctx, dryRun, last)
		switch {
		case errors.Is(err, errUnbooked):
			return p.unbooked(ctx, o.rules, err)
		case err != nil || !o.wait:
			return o, err
		}
		select {
		case <-changed:
		case <-p.Clock.After(lookAgain):
		case <-ctx.Done():
			return p.unbooked(ctx, o.rules, ctx.Err())
		}
	}
}

// try decides once. last tells that it must not wait.
func (p *placing) try(ctx context.Context, dryRun, last bool) (outcome, error) {
	if !p.Tally.Synced() {
		if last {
			return outcome{}, errUncounted
		}
		return outcome{wait: true}, nil
	}
	rules, err := p.rules(ctx)
	if err != nil {
		return outcome{}, err
	}
	of := books.OfSpread(p.object)
	book, err := p.Books.Look(ctx, of)
	if err != nil {
		return outcome{}, err
	}
	if p.before == nil {
		p.before = map[string]bool{}
		for key := range book.Entries {
			p.before[key] = true
		}
	}
	o, err := p.decide(ctx, rules, book, last)
	if err != nil || dryRun || o.wait || !o.enter {
		return o, err
	}
	if o.wait = ctx.Err() != nil; o.wait { // no entry can be tried
		return o, nil
	}
	var failed error
	_, err = p.Books.Decide(ctx, of, func(book ledger.Book) (ledger.Book, bool) {
		if o, failed = p.decide(ctx, rules, book, last); failed != nil || o.wait || !o.enter || o.Subset == "" {
			return book, false // the answer is checked against the newest book
		}
		return o.book, true
	})
	if err != nil {
		return outcome{rules: rules}, fmt.Errorf("%w: %w", errUnbooked, err)
	}
	return o, failed
}

// errUnbooked is returned where the book cannot be written, or not in time.
var errUnbooked = errors.New("the book of the spread cannot be written")

// unbooked chooses a subset without an entry, so that the book of an open namespace, or a book that the API server
// refuses, keeps no pod away. A subset without a maximum needs no entry. Where all have one, the first with a free slot
// may get a pod too many: one for each creation whose entry could not be written, and whose pod is not seen. In a closed
// namespace a pod is refused whose time is used up, and its owner tries again.
func (p *placing) unbooked(ctx context.Context, rules spread.Spread, cause error) (outcome, error) {
	if ctx.Err() != nil && p.closed || len(rules.Subsets) == 0 {
		return outcome{}, cause
	}
	ctx = context.WithoutCancel(ctx)
	book, err := p.Books.Look(ctx, books.OfSpread(p.object))
	if err != nil {
		return outcome{}, err
	}
	chosen := rules
	chosen.Subsets = slices.DeleteFunc(slices.Clone(rules.Subsets), func(s spread.Subset) bool { return s.Max != nil || s.Unschedulable })
	booked, err := p.decide(ctx, rules, book, true)
	o := booked
	if err == nil && len(chosen.Subsets) > 0 && len(p.home.Place) == 0 {
		o, err = p.decide(ctx, chosen, book, true)
	}
	if err != nil || o.Subset == "" {
		return o, err
	}
	if o.Subset != booked.Subset {
		o.Home = booked.Subset
	}
	o.rules, o.Reason = rules, reasonNotBooked
	o.Message = fmt.Sprintf("the pod goes to subset %s without an entry: %v", o.Subset, cause)
	log.FromContext(ctx).Error(cause, "Pod is placed without an entry", "spread", p.object.Name, "subset", o.Subset)
	return o, nil
}

// decide chooses a subset by a book. The same function decides for a look and for the
// compare-and-set.
func (p *placing) decide(ctx context.Context, rules spread.Spread, book ledger.Book, last bool) (outcome, error) {
	now := p.Clock.Now()
	view := p.Tally.View(p.query(book))
	behind := !book.Knows(view.Version)
	book, _ = ledger.Settle(book, view.Settled, now)
	facts := spread.Facts{
		Spread: rules, Key: p.key(), Owner: string(p.owner.UID), Pods: view.Subsets, OwnerPods: view.Pods, Wants: p.wants(ctx),
		Entries: p.entries(book, view),
		Before:  func(key string) bool { return p.before[key] }, Behind: p.isBehind(book, view),
		Pod: p.facts.Pod, Node: p.home.Node, Place: p.home.Place, Room: p.home.Room,
	}
	if err := p.correct(ctx, &facts, view); err != nil {
		return outcome{}, err
	}
	in := spread.InputOf(facts)
	o := outcome{Decision: spread.Choose(in), rules: rules}
	if !last && (behind || in.Surplus || o.Subset == "" || p.replaces(ctx, facts, in, o.Decision)) {
		o.wait = true
		return o, nil
	}
	if o.enter = o.Book || p.uncertain(rules, facts.Entries); !o.enter {
		return o, nil
	}
	replaces := o.Replaces
	if replaces == "" && in.Surplus && in.Oldest != nil {
		replaces = in.Oldest.Key
	}
	o.book = ledger.Place(book, ledger.Entry{
		UID: p.key(), Pod: p.facts.Pod.Name, Subset: o.Subset, Owner: string(p.owner.UID),
		Since: now, Expires: now.Add(ledger.Bound), Version: view.Version,
	}, replaces)
	return o, nil
}

// replaces reports whether the caches may not show yet which pod the creation replaces. ReplicaSets
// and Jobs tell how many pods they want; for a workload of another kind its size is read. Pods of a
// former size do not wait longer than the others.
func (p *placing) replaces(ctx context.Context, f spread.Facts, in spread.Input, d spread.Decision) bool {
	if !spread.Replaces(f, in, d, math.MaxInt64, 0) {
		return false
	}
	size, unknown, err := p.size(ctx)
	if err != nil || unknown != "" {
		return false // a pod is not refused because its creation cannot wait
	}
	pods := int64(f.OwnerPods)
	if p.together() || len(p.Sizes.PathsOf(p.object)) > 0 {
		pods = 0
		for _, n := range f.Pods {
			pods += int64(n)
		}
	}
	for _, e := range f.Entries {
		if e.Key != f.Key {
			pods++
		}
	}
	return spread.Replaces(f, in, d, pods, size)
}

// query asks the tally for the pods of the spread, and for those that entries became.
func (p *placing) query(book ledger.Book) placement.Query {
	q := placement.Query{Namespace: p.object.Namespace, Owner: p.owner.UID, Spread: p.object.Name, Together: p.together()}
	for key, e := range book.Entries {
		q.Creations = append(q.Creations, placement.Creation{Key: key, After: e.Version})
	}
	return q
}

// isBehind reports whether another replica knew newer pods when it made an entry.
func (p *placing) isBehind(book ledger.Book, view placement.View) bool {
	for _, e := range book.Entries {
		if cluster.Behind(view.Version, e.Version) {
			return true
		}
	}
	return false
}

// entries are those of the pod's revision whose pods are not seen.
func (p *placing) entries(book ledger.Book, view placement.View) []spread.Entry {
	var entries []spread.Entry
	for key, e := range book.Entries {
		if _, seen := view.Seen[key]; !seen && (p.together() || e.Owner == string(p.owner.UID)) {
			entries = append(entries, spread.Entry{Key: key, Subset: e.Subset, Owner: e.Owner, Since: e.Since})
		}
	}
	return entries
}

// uncertain reports whether an entry fills a slot of a subset with a limit. Then a pod of another
// subset needs an entry, too: a creation was possibly refused, and the pods and entries of an
// owner show that only if all are counted.
func (p *placing) uncertain(rules spread.Spread, entries []spread.Entry) bool {
	for _, e := range entries {
		if slices.ContainsFunc(rules.Subsets, func(s spread.Subset) bool { return s.Name == e.Subset && s.Max != nil }) {
			return true
		}
	}
	return false
}

// correct counts what the tally cannot know: the pods that the reconciler has not adopted yet,
// and a pod of the same name, which is gone although the cache may show it.
func (p *placing) correct(ctx context.Context, f *spread.Facts, view placement.View) error {
	if view.Others > 0 || removed(f.Spread, f.Pods) > 0 {
		more, err := p.unadopted(ctx, f.Spread, view)
		if err != nil {
			return err
		}
		for subset, n := range more {
			f.Pods[subset] += n
		}
	}
	if p.facts.Pod.Name == "" {
		return nil
	}
	var before corev1.Pod
	key := client.ObjectKeyFromObject(p.facts.Pod)
	if err := p.Cached.Get(ctx, key, &before, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get pod %s: %w", key, err)
	}
	owner, _ := workload.ControllerOf(&before)
	if owner.UID != p.owner.UID || !workload.Alive(&before) {
		return nil
	}
	f.OwnerPods--
	if subset := matched(&before, p.object.Name); f.Pods[subset] > 0 {
		f.Pods[subset]--
	}
	return nil
}

// removed counts pods whose subset the spread no longer has.
func removed(rules spread.Spread, pods map[string]int32) (n int32) {
	for subset, count := range pods {
		if !has(rules, subset) {
			n += count
		}
	}
	return n
}

// has reports whether a spread has a subset.
func has(rules spread.Spread, subset string) bool {
	return slices.ContainsFunc(rules.Subsets, func(s spread.Subset) bool { return s.Name == subset })
}

// matched returns the subset of a spread that a pod has by its annotation; "" for none.
func matched(pod *corev1.Pod, name string) string {
	match, err := appsv1beta1.ParseMatch(pod.Annotations[appsv1beta1.AnnotationMatchedSpread])
	if err != nil || match.Name != name {
		return ""
	}
	return match.Subset
}

// unadopted counts the pods of the owner by the subset in which they will be adopted. The counts
// are computed again when one of these pods changes.
func (p *placing) unadopted(ctx context.Context, rules spread.Spread, view placement.View) (map[string]int32, error) {
	key := adoptionKey{p.object.UID, p.owner.UID}
	at := moment{generation: p.object.Generation, change: view.Unplaced, removed: removed(rules, view.Subsets)}
	if last, ok := p.adopted.Get(p.object.Namespace, key); ok && last.at == at {
		return last.counts, nil
	}
	pods, err := cluster.PodsOwnedBy(ctx, p.Cached, p.object.Namespace, p.owner.UID)
	if err != nil {
		return nil, err
	}
	in := spread.AdoptInput{Spread: rules, Nodes: map[string]*corev1.Node{}, Slots: map[string]spread.Slots{}}
	for subset, n := range view.Subsets {
		in.Slots[subset] = spread.Slots{Pods: n}
	}
	known := true // the binding of a pod that had a subset changes no moment, nor does a node that the cache shows later
	for i := range pods {
		pod := &pods[i]
		if !workload.Alive(pod) || has(rules, matched(pod, p.object.Name)) {
			continue
		}
		if pod.Spec.NodeName == "" {
			known = known && pod.Annotations[appsv1beta1.AnnotationMatchedSpread] == ""
			continue
		}
		in.Pods = append(in.Pods, pod)
		if _, ok := in.Nodes[pod.Spec.NodeName]; ok {
			continue
		}
		if in.Nodes[pod.Spec.NodeName], err = cluster.Node(ctx, p.Cached, pod.Spec.NodeName); err != nil {
			return nil, err
		}
		known = known && in.Nodes[pod.Spec.NodeName] != nil
	}
	counts := map[string]int32{}
	for _, subset := range spread.Adopt(in) {
		counts[subset]++
	}
	if known {
		p.adopted.Put(fair.Bounds{All: mostAdoptions}, p.object.Namespace, key, adoption{at, maps.Clone(counts)})
	}
	return counts, nil
}

// mostAdoptions bounds the memory of how many pods will be adopted in which subset: with thousands of pods that is too
// much for each creation.
const mostAdoptions = 1024

type adoptionKey struct{ spread, owner types.UID }

// adoption are the counts at one moment.
type adoption struct {
	at     moment
	counts map[string]int32
}

type moment struct {
	generation, change int64
	removed            int32
}
