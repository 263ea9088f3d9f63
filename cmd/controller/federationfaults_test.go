package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// plainPeer has a PodDisruptionBudget in the last land, whose maxUnavailable counts: it has one of two units. Its
// status, which no controller writes here, keeps pods of others while it lacks one; its owner may take both units.
func plainPeer(t *testing.T, lands []*land) {
	w := &team{lands: lands[:2], in: []string{"plain", "plain"}, size: perLand}
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "plain", Name: "db"}}
	pdb.Annotations = map[string]string{policyv1beta1.AnnotationPeers: "blue/plain/db, green/plain/db"}
	pdb.Spec.Selector, pdb.Spec.MaxUnavailable = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, new(intstr.FromInt32(1))
	far := lands[2].env
	far.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "plain"}}, pdb)
	status := func(healthy int32) {
		t.Helper()
		testenv.Eventually(t, func() error {
			if err := far.Client.Get(t.Context(), client.ObjectKeyFromObject(pdb), pdb); err != nil {
				return err
			}
			pdb.Status = policyv1.PodDisruptionBudgetStatus{
				ObservedGeneration: pdb.Generation, ExpectedPods: 3, DesiredHealthy: 3 - pdb.Spec.MaxUnavailable.IntVal, CurrentHealthy: healthy, DisruptionsAllowed: 1,
			}
			return far.Client.Status().Update(t.Context(), pdb)
		})
	}
	status(3)
	w.fill(t, func(s *limpetv1alpha1.DistributedPodDisruptionBudgetSpec) {
		s.MaxUnavailable = new(intstr.FromInt32(2))
		s.Federation = append(s.Federation, limpetv1alpha1.BudgetPeer{Kind: limpetv1alpha1.PeerPlain, Cluster: "red", Namespace: "plain", Name: "db"})
	})
	defer budgetsKept(t, w)
	w.settle(t)
	w.goes(t, 0, 0)
	w.stays(t, 1, 0, "")
	w.rebuild(t, 0, 0)
	status(1)
	w.stays(t, 0, 0, "peer red/plain/pdb/db lacks 1 pods beyond its share")
	status(3)
	w.goes(t, 1, 0)
	w.rebuild(t, 1, 0)
	far.Change(t, pdb, func() { pdb.Spec.MaxUnavailable = new(intstr.FromInt32(2)) })
	w.stays(t, 0, 0, "") // it is not counted again yet
	status(3)
	w.shows(t, 0, func(b *limpetv1alpha1.DistributedPodDisruptionBudget) bool {
		at := len(b.Status.FederatedStatuses) - 1
		return b.Status.DisruptionsAllowed == 0 && at >= 0 && b.Status.FederatedStatuses[at].Share == 2 && len(b.Status.Shares) > 0 && b.Status.Shares[0].Open
	})
	w.stays(t, 0, 0, "its share of maxUnavailable 2 in 3 sites")
	far.Change(t, pdb, func() { pdb.Spec.MaxUnavailable = new(intstr.FromInt32(3)) })
	status(3)
	for i := range w.lands {
		w.shows(t, i, func(b *limpetv1alpha1.DistributedPodDisruptionBudget) bool { return len(b.Status.Shares) == 0 })
		w.stays(t, i, 0, "PodDisruptionBudgets let 3 pods go, and all sites together may let 2")
	}
}

// onItsWay has a unit that was sent while no peer can read that: no pod of any land may go until they can.
func onItsWay(t *testing.T, lands []*land) {
	w := newTeam(t, "onway", lands, func(s *limpetv1alpha1.DistributedPodDisruptionBudgetSpec) {
		atMostOne(s)
		s.PartitionPolicy = limpetv1alpha1.PartitionReserved
	})
	defer budgetsKept(t, w)
	w.goes(t, 1, 0)
	w.rebuild(t, 1, 0)
	w.shows(t, 1, func(b *limpetv1alpha1.DistributedPodDisruptionBudget) bool { return b.Status.DisruptionsAllowed == 1 })
	lands[1].relay.Cut()
	w.refused(t, 0, 0)
	w.shows(t, 1, func(b *limpetv1alpha1.DistributedPodDisruptionBudget) bool { return b.Status.DisruptionsAllowed == 0 })
	for land := range lands {
		w.stays(t, land, 0, "its share of maxUnavailable 1 in 3 sites")
	}
	lands[1].relay.Mend(t)
	w.goes(t, 0, 0)
}

// refused asks for a pod once, and fails unless it stays.
func (w *team) refused(t *testing.T, land, pod int) {
	t.Helper()
	if err := w.evict(t.Context(), land, pod); err == nil {
		t.Errorf("pod %d of %s goes", pod, w.lands[land].name)
	}
}

// slowPeers evicts everything while each piece of each connection is late, and then while one land is silent, with all
// connections open.
func slowPeers(t *testing.T, lands []*land) {
	if testing.Short() {
		t.Skip("-short was given, and this runs control planes under load for minutes; make test-all runs it")
	}
	w := newTeam(t, "slow", lands, atMostOne)
	defer budgetsKept(t, w)
	for _, l := range lands {
		l.relay.Slow(150 * time.Millisecond)
	}
	w.storm(t)
	for _, l := range lands {
		l.relay.Slow(0)
	}
	w.settle(t)
	lands[2].relay.Freeze()
	w.stays(t, 0, 0, "peer red/slow/db cannot be read")
	w.stays(t, 1, 0, "peer red/slow/db cannot be read")
	lands[2].relay.Thaw()
	w.goes(t, 0, 0)
}

// killed evicts everything while one controller after the other is killed and starts again. Without an answer no pod goes.
func killed(t *testing.T, lands []*land) {
	w := &team{lands: lands, in: []string{"killed", "killed", "killed"}, size: perLand}
	w.fill(t, atMostOne)
	defer budgetsKept(t, w)
	w.settle(t)
	if testing.Short() {
		lands = lands[:1]
	}
	for i, l := range lands {
		var all sync.WaitGroup
		all.Go(func() { w.storm(t) })
		testenv.Eventually(t, func() error {
			if went := w.went[0].Load() + w.went[1].Load() + w.went[2].Load(); int(went) <= i*len(w.lands)*perLand {
				return errors.New("no pod goes yet")
			}
			return nil
		})
		l.replica.kill(t)
		l.replica.start(t)
		l.replica.waitReady(t)
		all.Wait()
		w.settle(t)
	}
}

// withoutBudgets deletes one budget after the other. Its pods may go then, and those of the others may not until the last is gone.
func withoutBudgets(t *testing.T, lands []*land) {
	w := newTeam(t, "without", lands, atMostOne)
	for land, l := range lands {
		w.stays(t, 2, 0, "")
		l.env.Remove(t, w.budgets[land])
		for pod := range perLand {
			w.goes(t, land, pod)
		}
	}
}

// TestManyGroupsOverClusters drains ten nodes of each of three clusters, one after the other in each, of 200 groups that have
// a pod in each cluster, of which one may be away: as kubectl drain does, it asks for all pods of a node at once, and again
// after 5 s. It prints what the drains take.
func TestManyGroupsOverClusters(t *testing.T) {
	if testing.Short() {
		t.Skip("-short was given, and this runs control planes under load for minutes; make test-all runs it")
	}
	const groups, nodes = 200, 10
	lands := startLands(t, "blue", "green", "red")
	for _, l := range lands {
		l.env.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "many"}})
	}
	var teams []*team
	for i := range groups {
		w := &team{lands: lands, in: []string{"many", "many", "many"}, size: 1, name: fmt.Sprint("g", i), node: fmt.Sprint("n", i%nodes)}
		w.fill(t, atMostOne)
		teams = append(teams, w)
	}
	began := time.Now()
	for _, w := range teams {
		w.settle(t)
	}
	t.Logf("%d groups agree after %s", groups, time.Since(began).Round(time.Second))
	began = time.Now()
	var all sync.WaitGroup
	for land := range lands {
		all.Go(func() {
			for node := range nodes {
				drain(t, teams, land, fmt.Sprint("n", node))
			}
		})
	}
	all.Wait()
	t.Logf("%d pods went in %s", groups*len(lands), time.Since(began).Round(time.Second))
	budgetsKept(t, teams...)
}

// drain evicts the pods of all teams that are on a node of a land, and makes their successors.
func drain(t *testing.T, teams []*team, land int, node string) {
	var all sync.WaitGroup
	for _, w := range teams {
		if w.node != node {
			continue
		}
		all.Go(func() {
			err := wait.PollUntilContextTimeout(t.Context(), 5*time.Second, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
				return w.evict(ctx, land, 0) == nil, nil
			})
			if err != nil {
				t.Errorf("pod of %s: %v", w.name, err)
				return
			}
			w.rebuild(t, land, 0)
		})
	}
	all.Wait()
}

// shares are all shares that the books of several clusters ever had.
type shares struct {
	mu  sync.Mutex
	all map[string][]ledger.Share // by the agreement and the nonce of the site, the oldest first
}

// followShares begins to read the books of clusters.
func followShares(t *testing.T, lands []*land) *shares {
	t.Helper()
	s := &shares{all: map[string][]ledger.Share{}}
	for _, l := range lands {
		c, err := client.NewWithWatch(l.env.Config, client.Options{Scheme: l.env.Scheme, Mapper: l.env.Client.RESTMapper()})
		if err != nil {
			t.Fatal(err)
		}
		w, err := c.Watch(t.Context(), &limpetv1alpha1.DisruptionBookList{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		go func() {
			for e := range w.ResultChan() {
				if book, ok := e.Object.(*limpetv1alpha1.DisruptionBook); ok && e.Type != watch.Deleted {
					s.add(book)
				}
			}
		}()
	}
	return s
}

func (s *shares) add(book *limpetv1alpha1.DisruptionBook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stored := range book.Shares {
		if share := books.ShareOf(stored); share.Open {
			id := share.Agreement + " " + share.Nonce
			s.all[id] = append(s.all[id], share)
		}
	}
}

// check sums what the books have had. Units that only grow, that were sent before they were taken, and a beginning that
// does not exceed the number, are shares that never do, whatever the clocks of the clusters were.
func (s *shares) check(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, func() error { // a watch may be behind another
		s.mu.Lock()
		defer s.mu.Unlock()
		last, err := s.grow()
		if err == nil {
			err = sum(last)
		}
		return err
	})
	t.Logf("%d shares in all agreements", len(s.all))
}

// grow returns the last version of each share, unless the units of any ever fell.
func (s *shares) grow() (map[string]ledger.Share, error) {
	last := map[string]ledger.Share{}
	for id, all := range s.all {
		for i, share := range all[1:] {
			for _, units := range share.Peers {
				if before, known := all[i].Peer(units.Site); !known || before.Sent > units.Sent || before.Taken > units.Taken {
					return nil, fmt.Errorf("agreement %s: units of %s fall from %+v to %+v", share.Agreement, units.Site, before, units)
				}
			}
		}
		last[id] = all[len(all)-1]
	}
	return last, nil
}

// sum compares what was sent with what was taken, and what agreements began with.
func sum(last map[string]ledger.Share) error {
	bases := map[string]int32{}
	for _, share := range last {
		if !share.Least {
			bases[share.Agreement] += share.Base
		}
		if n := bases[share.Agreement]; n > 2 { // the largest number here
			return fmt.Errorf("agreement %s begins with %d units", share.Agreement, n)
		}
		for _, units := range share.Peers {
			giver, known := last[share.Agreement+" "+units.Nonce]
			at := slices.IndexFunc(giver.Peers, func(to ledger.PeerUnits) bool { return to.Nonce == share.Nonce })
			if known && (at < 0 || units.Taken > giver.Peers[at].Sent) {
				return fmt.Errorf("agreement %s: %+v was taken of what was sent: %+v", share.Agreement, units, giver.Peers)
			}
		}
	}
	return nil
}
