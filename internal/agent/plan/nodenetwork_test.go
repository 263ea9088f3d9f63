package plan_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// ranges returns ranges of nodes, each written as "node use cidr".
func ranges(texts ...string) (all []v1alpha1.NodeRange) {
	for _, text := range texts {
		f := strings.Fields(text)
		all = append(all, v1alpha1.NodeRange{Node: f[0], Use: v1alpha1.RangeUse(f[1]), CIDR: f[2]})
	}
	return all
}

// accepts is what the agent asks limpet-ipam with.
func accepts(conf []byte) error {
	_, err := netconf.Decode(conf).ParseStatus()
	return err
}

// decide returns what node n1 does with settings. It has the label nic=jumbo, and n2 is another node.
func decide(spec v1alpha1.NodeNetworkSpec, change ...func(*plan.OwnNetworkInput)) plan.OwnNetworkDecision {
	self := nodeWith("n1", []string{"10.1.1.0/24", "fd01:1::/64"}, "192.0.2.1", "2001:db8::1")
	self.Labels = map[string]string{"nic": "jumbo", "zone": "a"}
	in := plan.OwnNetworkInput{
		Node: "n1", Nodes: []corev1.Node{self, nodeWith("n2", []string{"10.1.2.0/24", "fd01:2::/64"}, "192.0.2.2", "2001:db8::2")},
		Settings: &plan.NodeNetwork{Spec: spec, Generation: 7}, NodeMTU: 1500, Accepts: accepts,
		Options: plan.PluginOptions{MaxRetain: time.Hour, SharePercent: 40},
	}
	for _, c := range change {
		c(&in)
	}
	return plan.OwnNetwork(in)
}

// TestSettingsOfANode decides what the network configuration of a node holds.
func TestSettingsOfANode(t *testing.T) {
	jumbo := v1alpha1.NodeGroup{Name: "jumbo", NodeLabels: map[string]string{"nic": "jumbo"}, MTU: 1400}
	zone := v1alpha1.NodeGroup{Name: "zone", NodeLabels: map[string]string{"zone": "a"}, MTU: 1300}
	both := v1alpha1.NodeGroup{Name: "both", NodeLabels: map[string]string{"zone": "a", "nic": "slow"}, MTU: 1290}
	without := func(in *plan.OwnNetworkInput) { in.Nodes[0].Spec.PodCIDRs = nil }
	for name, tc := range map[string]struct {
		spec   v1alpha1.NodeNetworkSpec
		change func(*plan.OwnNetworkInput)
		mtu    float64
		ranges string
		note   string
	}{
		"no settings":                    {ranges: "10.1.1.0/24; fd01:1::/64"},
		"an MTU of all nodes":            {spec: v1alpha1.NodeNetworkSpec{MTU: 1450}, mtu: 1450, ranges: "10.1.1.0/24; fd01:1::/64"},
		"the MTU of a group":             {spec: v1alpha1.NodeNetworkSpec{MTU: 1450, Groups: []v1alpha1.NodeGroup{both, jumbo}}, mtu: 1400, ranges: "10.1.1.0/24; fd01:1::/64"},
		"the first of two groups counts": {spec: v1alpha1.NodeNetworkSpec{Groups: []v1alpha1.NodeGroup{zone, jumbo}}, mtu: 1300, ranges: "10.1.1.0/24; fd01:1::/64", note: "group zone counts; the node is also one of jumbo"},
		"a further range":                {spec: v1alpha1.NodeNetworkSpec{Ranges: ranges("n1 Further 10.200.1.0/24")}, ranges: "10.1.1.0/24, 10.200.1.0/24; fd01:1::/64"},
		"further ranges of both families, and one of another node": {
			spec:   v1alpha1.NodeNetworkSpec{Ranges: ranges("n1 Further fd02::/64", "n2 Further 10.200.2.0/24", "n1 Further 10.200.1.0/24", "n1 Further 10.200.3.0/24")},
			ranges: "10.1.1.0/24, 10.200.1.0/24, 10.200.3.0/24; fd01:1::/64, fd02::/64",
		},
		"a range instead of the pod CIDR": {
			spec: v1alpha1.NodeNetworkSpec{Ranges: ranges("n1 Instead 10.200.1.0/24", "n1 Further 10.200.2.0/24")}, ranges: "10.200.1.0/24, 10.200.2.0/24; fd01:1::/64",
		},
		"a part of the pod CIDR":                   {spec: v1alpha1.NodeNetworkSpec{Ranges: ranges("n1 Instead 10.1.1.0/25")}, ranges: "10.1.1.0/25; fd01:1::/64"},
		"a retired range":                          {spec: v1alpha1.NodeNetworkSpec{Ranges: ranges("n1 Retired 10.200.1.0/24")}, ranges: "10.1.1.0/24; fd01:1::/64"},
		"a node without a pod CIDR":                {spec: v1alpha1.NodeNetworkSpec{Ranges: ranges("n1 Instead 10.200.1.0/24")}, change: without, ranges: "10.200.1.0/24"},
		"IPv6 first, as the pod CIDRs":             {spec: v1alpha1.NodeNetworkSpec{Ranges: ranges("n1 Further 10.200.1.0/24")}, change: func(in *plan.OwnNetworkInput) { slices.Reverse(in.Nodes[0].Spec.PodCIDRs) }, ranges: "fd01:1::/64; 10.1.1.0/24, 10.200.1.0/24"},
		"an MTU where the node's own is not known": {spec: v1alpha1.NodeNetworkSpec{MTU: 9000}, change: func(in *plan.OwnNetworkInput) { in.NodeMTU = 0 }, mtu: 9000, ranges: "10.1.1.0/24; fd01:1::/64"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.change == nil {
				tc.change = func(*plan.OwnNetworkInput) {}
			}
			d := decide(tc.spec, tc.change)
			if d.Err != nil || d.Configured.Status != metav1.ConditionTrue || d.Configured.Reason != v1alpha1.ReasonApplied || d.Configured.ObservedGeneration != 7 {
				t.Fatalf("condition %+v, %v", d.Configured, d.Err)
			}
			if d.Configured.Message != tc.note {
				t.Errorf("message %q, want %q", d.Configured.Message, tc.note)
			}
			mtu, sets := written(t, d.Conflist)
			if mtu != tc.mtu || sets != tc.ranges {
				t.Errorf("MTU %v, ranges %s; want %v, %s", mtu, sets, tc.mtu, tc.ranges)
			}
			if len(d.Sets) != strings.Count(tc.ranges, ";")+1 {
				t.Errorf("range sets of the pool: %v", d.Sets)
			}
		})
	}
}

// written returns the MTU and the range sets of a network configuration.
func written(t *testing.T, conflist []byte) (mtu float64, sets string) {
	t.Helper()
	var conf struct {
		Plugins []struct {
			MTU  float64 `json:"mtu"`
			IPAM struct {
				Ranges [][]struct{ Subnet string }
			}
		}
	}
	if err := json.Unmarshal(conflist, &conf); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, set := range conf.Plugins[0].IPAM.Ranges {
		var of []string
		for _, r := range set {
			of = append(of, r.Subnet)
		}
		texts = append(texts, strings.Join(of, ", "))
	}
	return conf.Plugins[0].MTU, strings.Join(texts, "; ")
}

// TestSettingsThatANodeCannotHave leaves the network configuration as it was, and says why.
func TestSettingsThatANodeCannotHave(t *testing.T) {
	for name, tc := range map[string]struct {
		ranges []string
		mtu    int32
		change func(*plan.OwnNetworkInput)
		reason string
		words  string
	}{
		"a range within the pod CIDR of another node":   {ranges: []string{"n1 Further 10.1.2.128/25"}, reason: v1alpha1.ReasonSharedAddresses, words: "range 10.1.2.128/25 of node n1 shares addresses with 10.1.2.0/24 of node n2"},
		"a range around it":                             {ranges: []string{"n1 Instead 10.0.0.0/8"}, reason: v1alpha1.ReasonSharedAddresses, words: "10.1.2.0/24 of node n2"},
		"a range of another node within its pod CIDR":   {ranges: []string{"n2 Further 10.1.1.0/26"}, reason: v1alpha1.ReasonSharedAddresses, words: "10.1.1.0/24 of node n1 shares addresses with range 10.1.1.0/26 of node n2"},
		"a retired one there":                           {ranges: []string{"n2 Retired 10.1.1.0/26"}, reason: v1alpha1.ReasonSharedAddresses, words: "Remedy"},
		"a range of a node that has not joined":         {ranges: []string{"n9 Further 10.1.1.0/26"}, reason: v1alpha1.ReasonSharedAddresses, words: "node n9"},
		"ranges of two nodes that overlap":              {ranges: []string{"n1 Further 10.200.1.0/24", "n2 Further 10.200.0.0/16"}, reason: v1alpha1.ReasonSharedAddresses, words: "range 10.200.0.0/16 of node n2"},
		"a range with the address of a node":            {ranges: []string{"n1 Further 192.0.2.0/24"}, reason: v1alpha1.ReasonSharedAddresses, words: "192.0.2.1/32 of node n1"},
		"a further range within its own pod CIDR":       {ranges: []string{"n1 Further 10.1.1.0/25"}, reason: v1alpha1.ReasonRefused, words: "limpet-ipam refuses these settings"},
		"a further range without a pod CIDR":            {ranges: []string{"n1 Further 10.200.1.0/24"}, change: func(in *plan.OwnNetworkInput) { in.Nodes[0].Spec.PodCIDRs = nil }, reason: v1alpha1.ReasonNoRange, words: "set use to Instead"},
		"no range at all":                               {change: func(in *plan.OwnNetworkInput) { in.Nodes[0].Spec.PodCIDRs = nil }, reason: v1alpha1.ReasonNoRange, words: "no pod CIDR"},
		"an MTU larger than that of the node":           {mtu: 1501, reason: v1alpha1.ReasonMTUTooLarge, words: "1501 is larger than 1500"},
		"the network configuration of another in front": {mtu: 1400, change: func(in *plan.OwnNetworkInput) { in.Configs = files("05-other.conflist") }, reason: v1alpha1.ReasonForeignNetwork, words: "05-other.conflist"},
		"a node that is not registered":                 {change: func(in *plan.OwnNetworkInput) { in.Nodes = in.Nodes[1:] }, reason: v1alpha1.ReasonFailed, words: "not registered"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.change == nil {
				tc.change = func(*plan.OwnNetworkInput) {}
			}
			d := decide(v1alpha1.NodeNetworkSpec{MTU: tc.mtu, Ranges: ranges(tc.ranges...)}, tc.change)
			if d.Conflist != nil || d.Err == nil && d.Foreign == "" {
				t.Fatalf("network configuration %s, error %v", d.Conflist, d.Err)
			}
			c := d.Configured
			if c.Status != metav1.ConditionFalse || c.Reason != tc.reason || !strings.Contains(c.Message, tc.words) || c.ObservedGeneration != 7 {
				t.Errorf("condition %+v, want reason %s and %q", c, tc.reason, tc.words)
			}
		})
	}
}

// TestADeletedNodeNetworkStays says that the settings are those of an object that is gone.
func TestADeletedNodeNetworkStays(t *testing.T) {
	d := decide(v1alpha1.NodeNetworkSpec{MTU: 1400}, func(in *plan.OwnNetworkInput) { in.Settings.Deleted = true })
	if mtu, _ := written(t, d.Conflist); mtu != 1400 || d.Configured.Reason != v1alpha1.ReasonNodeNetworkDeleted || !strings.Contains(d.Configured.Message, "stay") {
		t.Errorf("MTU %v, condition %+v", mtu, d.Configured)
	}
	if d := decide(v1alpha1.NodeNetworkSpec{}, func(in *plan.OwnNetworkInput) { in.Settings = nil }); d.Configured != nil {
		t.Errorf("a condition without a NodeNetwork: %+v", d.Configured)
	}
}

// TestAFailedWriteIsTold says that settings which were decided are not those of the node.
func TestAFailedWriteIsTold(t *testing.T) {
	d := decide(v1alpha1.NodeNetworkSpec{MTU: 1400})
	before := d.Configured
	d.Failed(nil)
	if d.Configured != before || d.Configured.Reason != v1alpha1.ReasonApplied {
		t.Errorf("condition %+v without an error", d.Configured)
	}
	d.Failed(errors.New("no space left on device"))
	if c := d.Configured; c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonFailed || !strings.Contains(c.Message, "no space") || c.ObservedGeneration != before.ObservedGeneration {
		t.Errorf("condition %+v", c)
	}
	(&plan.OwnNetworkDecision{}).Failed(errors.New("no space left on device")) // without a NodeNetwork
}

// TestAConditionIsShort bounds what an agent writes about a setting.
func TestAConditionIsShort(t *testing.T) {
	d := decide(v1alpha1.NodeNetworkSpec{}, func(in *plan.OwnNetworkInput) {
		in.Accepts = func([]byte) error { return errors.New(strings.Repeat("ä", 4000)) }
	})
	if n := len(d.Configured.Message); n < 500 || n > 512 {
		t.Errorf("message of %d bytes", n)
	}
}

// TestRangeRoutes lists the routes to ranges of other nodes.
func TestRangeRoutes(t *testing.T) {
	for name, tc := range map[string]struct {
		ranges []string
		routes []string
		have   string // a route
	}{
		"each range of another node, a retired one too": {
			ranges: []string{"n1 Further 10.200.1.0/24", "n2 Further 10.200.2.0/24", "n2 Retired fd02::/64"},
			routes: []string{"unreachable 10.200.1.0/24", "10.200.2.0/24 via 192.0.2.2", "fd02::/64 via 2001:db8::2"},
		},
		"none to a node that has not joined":       {ranges: []string{"n9 Further 10.200.9.0/24"}},
		"none but its own to a part of a pod CIDR": {ranges: []string{"n2 Instead 10.1.2.0/24"}},
		"addresses of this node are not sent away": {ranges: []string{"n2 Further 10.1.1.0/26"}},
		"nor those of a third one":                 {ranges: []string{"n2 Further 10.1.3.0/26"}},
		"a route to what became disputed stays":    {ranges: []string{"n2 Further 192.0.2.0/28"}, have: "192.0.2.0/28", routes: []string{"192.0.2.0/28 via 192.0.2.2"}},
		"one to a range that is gone does not":     {have: "10.200.2.0/24"},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := []corev1.Node{
				nodeWith("n1", []string{"10.1.1.0/24"}, "192.0.2.1"), nodeWith("n2", []string{"10.1.2.0/24"}, "192.0.2.2", "2001:db8::2"), nodeWith("n3", []string{"10.1.3.0/24"}, "192.0.2.3"),
			}
			in := plan.OwnNetworkInput{Node: "n1", Nodes: nodes, Settings: &plan.NodeNetwork{Spec: v1alpha1.NodeNetworkSpec{Ranges: ranges(tc.ranges...)}}}
			if tc.have != "" {
				in.Have = []plan.Route{via(tc.have, "192.0.2.2")}
			}
			d := plan.OwnNetwork(in)
			if diff := cmp.Diff(tc.routes, routeTexts(d.Routes[3:])); diff != "" { // the first ones lead to pod CIDRs
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestThePoolShowsTheSettings adds the condition to the pool of the own network, which may be in no state file yet.
func TestThePoolShowsTheSettings(t *testing.T) {
	d := decide(v1alpha1.NodeNetworkSpec{Ranges: ranges("n1 Further 10.200.1.0/24")})
	for name, networks := range map[string][]plan.Network{
		"no pod yet": nil, "pods": {{Name: "limpet", Sets: d.Sets}}, "pods of another network": {{Name: "net", Sets: sets(t)}, {Name: "limpet", Sets: d.Sets}},
	} {
		t.Run(name, func(t *testing.T) {
			shown := 0
			for _, o := range plan.Mirror("n1", plan.WithOwnNetwork(networks, d), now) {
				pool := o.(*v1alpha1.NodeIPPool)
				i := slices.IndexFunc(pool.Status.Conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionConfigured })
				if (i >= 0) != (pool.Status.Network == "limpet") {
					t.Errorf("conditions of %s: %+v", pool.Status.Network, pool.Status.Conditions)
				}
				if i >= 0 {
					shown++
					if c := pool.Status.Conditions[i]; c.LastTransitionTime.IsZero() || pool.Status.Total != 506 {
						t.Errorf("condition %+v, pods %d", c, pool.Status.Total)
					}
				}
			}
			if shown != 1 {
				t.Errorf("%d pools tell the settings, want one", shown)
			}
		})
	}
}
