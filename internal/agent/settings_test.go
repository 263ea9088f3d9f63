package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/agent"
	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// conflistHas waits until the network configuration of a node has an MTU and as many ranges of IPv4; 0 for no MTU.
func (n *node) conflistHas(t *testing.T, mtu, ranges int) {
	t.Helper()
	testenv.Eventually(t, func() error {
		data, err := os.ReadFile(filepath.Join(n.ConfDir, "10-limpet.conflist"))
		if err != nil {
			return err
		}
		var conf struct {
			Plugins []struct {
				MTU  int `json:"mtu"`
				IPAM struct{ Ranges [][]any }
			}
		}
		if err := json.Unmarshal(data, &conf); err != nil {
			t.Fatalf("a part of a network configuration: %v", err)
		}
		if p := conf.Plugins[0]; p.MTU != mtu || len(p.IPAM.Ranges[0]) != ranges {
			return fmt.Errorf("MTU %d and %d ranges, want %d and %d", p.MTU, len(p.IPAM.Ranges[0]), mtu, ranges)
		}
		return nil
	})
}

// configuredIs waits until the pool of a node tells a reason for a generation.
func (n *node) configuredIs(t *testing.T, reason string, generation int64, word string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var pool v1alpha1.NodeIPPool
		if err := env.Client.Get(t.Context(), client.ObjectKey{Name: n.Node + ".limpet"}, &pool); err != nil {
			return err
		}
		c := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionConfigured)
		if c == nil || c.Reason != reason || c.ObservedGeneration != generation || !strings.Contains(c.Message, word) {
			return fmt.Errorf("condition %+v, want %s of generation %d with %q", c, reason, generation, word)
		}
		return nil
	})
}

// A record that cannot be read, or written, keeps no node from the settings and the routes of the object.
func TestADamagedRecordOfTheNodeNetworkIsReplaced(t *testing.T) {
	env.Since(t, 31, "CEL functions for networks")
	inNetNS(t)
	n := newNode(t, "net-3")
	n.OwnNetwork, n.Accepts = true, func([]byte) error { return nil }
	env.Create(t, peer("net-3", []string{"10.5.3.0/24"}, "192.0.2.1"))
	o := nodeNetwork("net-3 Further 10.205.3.0/24")
	env.Create(t, o)
	record := filepath.Join(n.StateDir, "limpet.nodenetwork")
	if err := os.MkdirAll(n.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(record, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.start(t)
	n.conflistHas(t, 0, 2)
	n.configuredIs(t, v1alpha1.ReasonApplied, 1, "")
	testenv.Eventually(t, func() error {
		if data, err := os.ReadFile(record); err != nil || len(data) < 2 {
			return fmt.Errorf("record %q: %w", data, err)
		}
		return nil
	})
	if err := os.Remove(record); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(record, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	env.Change(t, o, func() { o.Spec.MTU = 1400 })
	n.conflistHas(t, 1400, 2)
}

// TestAgentsApplyTheNodeNetwork runs the agents of two nodes: they take their settings, refuse what they cannot have,
// and keep what they have when the object is deleted, also over a restart.
func TestAgentsApplyTheNodeNetwork(t *testing.T) {
	env.Since(t, 31, "CEL functions for networks")
	inNetNS(t)
	h := handle(t)
	one, two := newNode(t, "net-1"), newNode(t, "net-2")
	one.OwnNetwork, two.OwnNetwork = true, true
	one.Accepts = func(conf []byte) error { _, err := netconf.Decode(conf).ParseStatus(); return err }
	two.Accepts = one.Accepts
	labelled := peer("net-1", []string{"10.5.1.0/24"}, "192.0.2.1") // the address of this machine, whose MTU is 1500
	labelled.Labels = map[string]string{"nic": "small"}
	env.Create(t, labelled, peer("net-2", []string{"10.5.2.0/24"}, "192.0.2.2"))
	o := nodeNetwork("net-2 Further 10.205.2.0/24")
	o.Spec.MTU, o.Spec.Groups = 1450, []v1alpha1.NodeGroup{{Name: "small", MTU: 1400, NodeLabels: map[string]string{"nic": "small"}}}
	env.Create(t, o)

	one.start(t)
	inNetNS(t) // routes of two nodes would be in each other's way
	stopTwo := two.startUntil(t)
	one.conflistHas(t, 1400, 1)
	two.conflistHas(t, 1450, 2)
	one.configuredIs(t, v1alpha1.ReasonApplied, 1, "")
	two.configuredIs(t, v1alpha1.ReasonApplied, 1, "")
	wantRoute(t, h, "10.205.2.0/24")

	t.Log("settings that one node cannot have")
	env.Change(t, o, func() {
		o.Spec.MTU = 1480
		o.Spec.Groups[0].MTU = 1501
	})
	one.configuredIs(t, v1alpha1.ReasonMTUTooLarge, 2, "1501 is larger than 1500")
	two.configuredIs(t, v1alpha1.ReasonApplied, 2, "")
	one.conflistHas(t, 1400, 1)
	two.conflistHas(t, 1480, 2)

	t.Log("a range within the pod CIDR of another node")
	env.Change(t, o, func() {
		o.Spec.Groups = nil
		o.Spec.Ranges = append(o.Spec.Ranges, v1alpha1.NodeRange{Node: "net-2", CIDR: "10.5.1.128/25"})
	})
	one.configuredIs(t, v1alpha1.ReasonSharedAddresses, 3, "range 10.5.1.128/25 of node net-2")
	two.configuredIs(t, v1alpha1.ReasonSharedAddresses, 3, "10.5.1.0/24 of node net-1")
	one.conflistHas(t, 1400, 1)
	two.conflistHas(t, 1480, 2)
	wantRoute(t, h, "10.205.2.0/24")

	t.Log("retired ranges")
	env.Change(t, o, func() {
		o.Spec.Ranges[0].Use, o.Spec.Ranges[1].Use = v1alpha1.RangeRetired, v1alpha1.RangeRetired
	})
	env.Change(t, o, func() { o.Spec.Ranges = o.Spec.Ranges[:1] })
	two.configuredIs(t, v1alpha1.ReasonApplied, 5, "")
	two.conflistHas(t, 1480, 1)
	one.conflistHas(t, 1480, 1)
	wantRoute(t, h, "10.205.2.0/24") // pods may have addresses of it

	t.Log("without the object")
	env.Remove(t, o)
	two.configuredIs(t, v1alpha1.ReasonNodeNetworkDeleted, 5, "stay")
	stopTwo()
	two.Registry = prometheus.NewRegistry()
	two.start(t)
	two.configuredIs(t, v1alpha1.ReasonNodeNetworkDeleted, 5, "stay")
	two.conflistHas(t, 1480, 1)

	t.Log("back to what nodes have without an object")
	empty := nodeNetwork()
	env.Create(t, empty)
	two.conflistHas(t, 0, 1)
	two.configuredIs(t, v1alpha1.ReasonApplied, 1, "")
	env.Remove(t, empty)
	testenv.Eventually(t, func() error {
		if _, err := os.Stat(filepath.Join(two.StateDir, "limpet.nodenetwork")); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("the record of the settings: %w", err)
		}
		return nil
	})
}

// TestAnAgentWithoutTheKindIsTheNetwork runs an agent that may not read NodeNetworks, as where users have not applied
// deploy/node-network: it sets up the network as always, without a route to services.
func TestAnAgentWithoutTheKindIsTheNetwork(t *testing.T) {
	env.Since(t, 33, "ServiceCIDRs")
	inNetNS(t)
	h, n := handle(t), newNode(t, "no-kind")
	n.OwnNetwork = true
	var services networkingv1.ServiceCIDR
	env.Read(t, client.ObjectKey{Name: "kubernetes"}, &services)
	env.Create(t, peer(n.Node, []string{"10.4.1.0/24"}, "192.0.2.1"), peer("no-kind-liar", services.Spec.CIDRs, "192.0.2.66"))
	n.REST = asAgent(t, n.REST)
	a := n.start(t)
	testenv.Eventually(t, a.Ready)
	routesAre(t, h, "unreachable 10.4.1.0/24")
	n.conflistHas(t, 0, 1)
	if _, err := os.Stat(filepath.Join(n.StateDir, "limpet.nodenetwork")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a record of settings: %v", err)
	}
}

// wantRoute waits until there is a route to a target.
func wantRoute(t *testing.T, h *netlink.Handle, to string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		all, err := h.RouteList(nil, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		var got []string
		for _, r := range all {
			got = append(got, r.Dst.String())
		}
		if !slices.Contains(got, to) {
			return fmt.Errorf("routes to %v, want one to %s", got, to)
		}
		return nil
	})
}

// startUntil runs an agent until the function that it returns is called.
func (n *node) startUntil(t *testing.T) (stop func()) {
	t.Helper()
	a, err := agent.New(n.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run agent: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// asAgent returns the configuration of a client with the rights of deploy/daemonset alone.
func asAgent(t *testing.T, of *rest.Config) *rest.Config {
	t.Helper()
	env.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "limpet-system"}})
	for _, o := range env.Manifest(t, "deploy/daemonset/rbac.yaml") {
		env.Create(t, o)
	}
	as := rest.CopyConfig(of)
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:limpet-system:limpet-agent"}
	return as
}
