package pin_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	controller "github.com/limpet-io/limpet/internal/controller/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// Objects that no reader believes are counted by their kind, which is the only label.
func TestObjectsThatAreNotBelievedAreCounted(t *testing.T) {
	m := newManager(t)
	m.start(t, &controller.Checker{Client: m.GetClient(), Clock: minuteClock{}, Metrics: controller.NewMetrics(m.metrics)})
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

func disbelieved(t *testing.T, m *manager, want float64) {
	t.Helper()
	testenv.Eventually(t, func() error {
		families, err := m.metrics.Gather()
		if err != nil {
			return err
		}
		for _, family := range families {
			for _, metric := range family.Metric {
				if family.GetName() == "limpet_disbelieved_objects" && metric.Label[0].GetValue() == "NodeIPPool" && metric.Gauge.GetValue() == want {
					return nil
				}
			}
		}
		return fmt.Errorf("metrics %v, want %v pools", families, want)
	})
}

// minuteClock is a clock whose minutes last a tenth of a second.
type minuteClock struct{ clock.RealClock }

func (c minuteClock) After(d time.Duration) <-chan time.Time { return c.RealClock.After(d / 600) }
