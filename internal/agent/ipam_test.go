package agent_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

const (
	limpetList    = `{"name":"a","plugins":[{"type":"bridge","ipam":{"type":"limpet-ipam"}},{"type":"portmap"}]}`
	hostLocalList = `{"name":"a","plugins":[{"type":"bridge","ipam":{"type":"host-local"}},{"type":"portmap"}]}`
)

// TestAForeignNetworkIsReported changes the IPAM plugin of a node, back and forth.
func TestAForeignNetworkIsReported(t *testing.T) {
	n := newNode(t, "foreign-reported")
	path := filepath.Join(n.ConfDir, "10-net.conflist")
	n.write(t, path, limpetList)
	n.write(t, filepath.Join(n.ConfDir, "00-backup.conflist.old"), hostLocalList) // no runtime reads this name
	n.attach(t, env.Namespace(t), "web-0", "uid-0", n.liveNetNS(), 0)
	n.start(t)
	n.metricIs(t, "limpet_agent_network_ipam limpet-ipam", 1)
	n.poolIsForeign(t, false)
	n.write(t, path, hostLocalList)
	n.metricIs(t, "limpet_agent_network_ipam other", 1)
	n.poolIsForeign(t, true)
	want := path + " is the network configuration of this node and does not name limpet-ipam as its IPAM plugin: its pods get no reservations"
	n.reported(t, want)
	n.write(t, path, limpetList)
	n.metricIs(t, "limpet_agent_network_ipam limpet-ipam", 1)
	n.metricIs(t, "limpet_agent_network_ipam other", 0)
	n.reported(t, want)
	n.poolIsForeign(t, false)
}

// poolIsForeign waits until the pool of the node tells of another network, or does not.
func (n *node) poolIsForeign(t *testing.T, want bool) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var pool v1alpha1.NodeIPPool
		if err := env.Client.Get(t.Context(), client.ObjectKey{Name: n.Node + ".net"}, &pool); err != nil {
			return err
		}
		c := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionConfigured)
		if (c != nil) != want || want && (c.Reason != v1alpha1.ReasonForeignNetwork || !strings.Contains(c.Message, "10-net.conflist")) {
			return fmt.Errorf("condition %+v, want one: %t", c, want)
		}
		return nil
	})
}

// reported waits until the events of the node have exactly these messages.
func (n *node) reported(t *testing.T, want ...string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if got := n.messages(t, plan.ReasonForeignNetwork); strings.Join(got, "\n") != strings.Join(want, "\n") {
			return fmt.Errorf("events %q, want %q", got, want)
		}
		return nil
	})
}

// messages returns the messages of the events about the node's network.
func (n *node) messages(t *testing.T, reason string) (all []string) {
	t.Helper()
	var list corev1.EventList
	if err := env.Client.List(t.Context(), &list, client.InNamespace("default")); err != nil {
		t.Error(err)
	}
	for _, e := range list.Items {
		if e.InvolvedObject.Kind == "Node" && e.InvolvedObject.Name == n.Node && e.Reason == reason {
			all = append(all, e.Message)
		}
	}
	return all
}

// TestInstallationIsMeasured checks version and outcome in the metrics, before and after the
// plugin's binary is there.
func TestInstallationIsMeasured(t *testing.T) {
	n := newNode(t, "measured")
	late := n.PluginFile
	if err := os.Remove(late); err != nil {
		t.Fatal(err)
	}
	n.start(t)
	n.metricIs(t, "limpet_agent_plugin_install_success", 0)
	n.write(t, late, plugin)
	n.metricIs(t, "limpet_agent_plugin_install_success", 1)
	n.metricIs(t, "limpet_agent_plugin_install_info "+fmt.Sprintf("%x", sha256.Sum256([]byte(plugin)))[:12], 1)
	if got, _ := n.metric(t, "limpet_agent_plugin_install_timestamp_seconds"); got < 1e9 {
		t.Errorf("installed at %v", got)
	}
}

// metricIs waits until a metric has a value. The name includes the values of the labels.
func (n *node) metricIs(t *testing.T, name string, want float64) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if got, found := n.metric(t, name); !found || got != want {
			return fmt.Errorf("%s is %v (%t), want %v", name, got, found, want)
		}
		return nil
	})
}

// metricIsAtLeast waits until a metric has a value.
func (n *node) metricIsAtLeast(t *testing.T, name string, want float64) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if got, _ := n.metric(t, name); got < want {
			return fmt.Errorf("%s is %v, want %v", name, got, want)
		}
		return nil
	})
}

func (n *node) metric(t *testing.T, name string) (float64, bool) {
	t.Helper()
	got, found := metricValues(t, n.Registry.(*prometheus.Registry), map[string]float64{name: 0})[name]
	return got, found
}
