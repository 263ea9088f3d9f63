package reconcile_test

import (
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
)

// statusBy is a client that writes statuses through another one.
type statusBy struct {
	client.Client
	other client.Client
}

// Status returns the writer of the other client.
func (c statusBy) Status() client.SubResourceWriter { return c.other.Status() }

// recordable makes so many StatefulSets of one Ready pod each, with a PersistentPodState.
func recordable(t *testing.T, node string, n int) []testenv.StatefulSet {
	t.Helper()
	ns := env.Namespace(t)
	sets := make([]testenv.StatefulSet, n)
	for i := range sets {
		sets[i] = testenv.AStatefulSet(fmt.Sprint("web", i), 1).In(ns)
		env.Create(t, sets[i].StatefulSet, testenv.APersistentPodState(sets[i].Name).In(ns).Prefers(100, hostname).PersistentPodState)
		env.Create(t, podOf(sets[i]).On(node).At(fmt.Sprint("10.0.1.", i+1)).Ready().Pod)
	}
	return sets
}

// A tenant whose records take long, or are many, delays the records of no other namespace.
func TestRecordsOfOneTenantDelayNoOther(t *testing.T) {
	const workers = 6
	node := env.Node(t)
	flood := recordable(t, node.Name, 2*workers)
	m := newManager(t)
	writes, traffic := env.Observe(t)
	recorder := m.recorder()
	recorder.Client = statusBy{recorder.Client, writes}
	part := fmt.Sprintf("/namespaces/%s/persistentpodstates/", flood[0].Namespace)
	release := traffic.Hold(t, part)
	m.start(t, recorder)
	testenv.Eventually(t, func() error {
		if n := traffic.Count(part); n < 4 {
			return fmt.Errorf("%d writes of the tenant are held up", n)
		}
		return nil
	})
	shop := recordable(t, node.Name, 1)[0]
	testenv.Eventually(t, func() error { return recordedOn(t, shop, node.Name) })
	if n := traffic.Count(part); n > 4 {
		t.Errorf("%d workers are busy with one namespace, want at most 4 of %d", n, workers)
	}
	release()
	for _, set := range flood {
		testenv.Eventually(t, func() error { return recordedOn(t, set, node.Name) })
	}
}

func recordedOn(t *testing.T, set testenv.StatefulSet, node string) error {
	t.Helper()
	state, err := env.State(t, set)
	if err != nil {
		return err
	}
	if recorded := state.Status.PodStates[set.Name+"-0"]; recorded.NodeName != node {
		return fmt.Errorf("record of %s/%s: %+v", set.Namespace, set.Name, recorded)
	}
	return nil
}
