package reconcile_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// Objects that no reader believes are counted by their kind, which is the only label.
func TestObjectsThatAreNotBelievedAreCounted(t *testing.T) {
	m := newManager(t)
	m.start(t, &controller.Checker{Client: m.GetClient(), Live: m.GetAPIReader(), Clock: minuteClock{}, Metrics: controller.NewMetrics(m.metrics)})
	node := env.Node(t)
	pool := func(name string, owners []metav1.OwnerReference) *limpetv1alpha1.NodeIPPool {
		p := &limpetv1alpha1.NodeIPPool{Status: limpetv1alpha1.NodeIPPoolStatus{Node: node.Name, Network: name}}
		p.Name, p.OwnerReferences = node.Name+"."+name, owners
		return p
	}
	forged := pool("forged", []metav1.OwnerReference{})
	env.Create(t, pool("net", nil), forged)
	disbelieved(t, m, 1)
	env.Remove(t, forged)
	disbelieved(t, m, 0)
}

// A stolen token of an agent may create thousands of objects that no reader believes. The log names some of them.
func TestAFewDisbelievedObjectsAreNamed(t *testing.T) {
	const made, named = 25, 20
	node := env.Node(t)
	for i := range made {
		p := &limpetv1alpha1.NodeIPPool{Status: limpetv1alpha1.NodeIPPoolStatus{Node: node.Name, Network: fmt.Sprint("net", i)}}
		p.Name, p.OwnerReferences = fmt.Sprint(node.Name, ".net", i), []metav1.OwnerReference{}
		env.Create(t, p)
	}
	m := newManager(t)
	m.start(t)
	var mu sync.Mutex
	lines, rest := 0, 0
	logger := funcr.New(func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case strings.Contains(line, "Object is not believed"):
			lines++
		case strings.Contains(line, fmt.Sprintf(`"objects"=%d`, made-named)):
			rest++
		}
	}, funcr.Options{})
	checker := &controller.Checker{Client: m.GetClient(), Live: m.GetAPIReader(), Clock: minuteClock{}, Metrics: controller.NewMetrics(m.metrics)}
	ctx, stop := context.WithCancel(logr.NewContext(t.Context(), logger))
	ended := make(chan error, 1)
	go func() { ended <- checker.Start(ctx) }()
	disbelieved(t, m, made)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if mu.Lock(); lines != named || rest != 1 {
		t.Errorf("the log names %d objects, and the number of others %d times; want %d and once", lines, rest, named)
	}
	mu.Unlock()
}

// A CRD that is missing is shown as 1, and one that exists as 0.
func TestAMissingCRDIsShown(t *testing.T) {
	m := newManager(t)
	gone := withoutCRD{env.Client, cluster.CRDs[2]} // with every right, so that another name is not found
	m.start(t, &controller.Checker{Client: m.GetClient(), Live: gone, Clock: minuteClock{}, Metrics: controller.NewMetrics(m.metrics)})
	for i, crd := range cluster.CRDs {
		absent := i == 2 || crd == "nodenetworks.limpet.dev" && !env.HasNodeNetworks()
		shows(t, m, "limpet_missing_crds", crd, map[bool]float64{true: 1, false: 0}[absent])
	}
}

// withoutCRD is an API server that lacks one CRD.
type withoutCRD struct {
	client.Reader
	name string
}

func (w withoutCRD) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if key.Name == w.name {
		key.Name = "missing." + w.name
	}
	return w.Reader.Get(ctx, key, into, opts...)
}

func disbelieved(t *testing.T, m *manager, want float64) {
	t.Helper()
	shows(t, m, "limpet_disbelieved_objects", "NodeIPPool", want)
}

func shows(t *testing.T, m *manager, name, label string, want float64) {
	t.Helper()
	testenv.Eventually(t, func() error {
		families, err := m.metrics.Gather()
		if err != nil {
			return err
		}
		for _, family := range families {
			for _, metric := range family.Metric {
				if family.GetName() == name && metric.Label[0].GetValue() == label && metric.Gauge.GetValue() == want {
					return nil
				}
			}
		}
		return fmt.Errorf("metrics %v, want %s of %s to be %v", families, name, label, want)
	})
}

// minuteClock is a clock whose minutes last a tenth of a second.
type minuteClock struct{ clock.RealClock }

func (c minuteClock) After(d time.Duration) <-chan time.Time { return c.RealClock.After(d / 600) }
