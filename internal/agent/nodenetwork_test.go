package agent_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// nodeNetwork returns a NodeNetwork with ranges, each written as "node use cidr".
func nodeNetwork(ranges ...string) *v1alpha1.NodeNetwork {
	o := &v1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeNetworkName}}
	for _, text := range ranges {
		f := strings.Fields(text)
		o.Spec.Ranges = append(o.Spec.Ranges, v1alpha1.NodeRange{Node: f[0], Use: v1alpha1.RangeUse(f[1]), CIDR: f[2]})
	}
	return o
}

// TestTheAPIServerRefusesABadNodeNetwork applies objects as users do. Each refusal names the field.
func TestTheAPIServerRefusesABadNodeNetwork(t *testing.T) {
	env.Since(t, 31, "CEL functions for networks")
	group := func(name string, mtu int32, labels map[string]string) *v1alpha1.NodeNetwork {
		o := nodeNetwork()
		o.Spec.Groups = []v1alpha1.NodeGroup{{Name: name, MTU: mtu, NodeLabels: labels}}
		return o
	}
	otherName, smallMTU, twice := nodeNetwork(), nodeNetwork(), group("a", 9000, map[string]string{"nic": "jumbo"})
	otherName.Name, smallMTU.Spec.MTU, twice.Spec.Groups = "other", 1279, append(twice.Spec.Groups, twice.Spec.Groups...)
	for name, tc := range map[string]struct {
		object *v1alpha1.NodeNetwork
		words  []string // of the refusal
	}{
		"another name":             {otherName, []string{"metadata.name must be limpet"}},
		"a small MTU":              {smallMTU, []string{"spec.mtu", "1280"}},
		"a group without labels":   {group("a", 9000, nil), []string{"spec.groups[0].nodeLabels"}},
		"a group without an MTU":   {group("a", 0, map[string]string{"nic": "jumbo"}), []string{"spec.groups[0].mtu"}},
		"two groups of one name":   {twice, []string{"spec.groups[1]", "Duplicate"}},
		"a range without node":     {&v1alpha1.NodeNetwork{ObjectMeta: otherName.ObjectMeta, Spec: v1alpha1.NodeNetworkSpec{Ranges: []v1alpha1.NodeRange{{CIDR: "10.200.1.0/24"}}}}, []string{"spec.ranges[0].node"}},
		"no CIDR":                  {nodeNetwork("n1 Further 10.200.1.0"), []string{"spec.ranges[0].cidr", "Remedy"}},
		"host bits":                {nodeNetwork("n1 Further 10.200.1.1/24"), []string{"spec.ranges[0].cidr", "Remedy"}},
		"host bits of IPv6":        {nodeNetwork("n1 Further fd00::1/64"), []string{"spec.ranges[0].cidr", "Remedy"}},
		"a range of one address":   {nodeNetwork("n1 Further 10.200.1.0/31"), []string{"spec.ranges[0].cidr", "Remedy"}},
		"multicast":                {nodeNetwork("n1 Further 224.1.0.0/24"), []string{"spec.ranges[0].cidr", "Remedy"}},
		"another use":              {nodeNetwork("n1 Maybe 10.200.1.0/24"), []string{"spec.ranges[0].use", "Instead"}},
		"one range of two nodes":   {nodeNetwork("n1 Further 10.200.1.0/24", "n2 Further 10.200.1.0/24"), []string{"spec.ranges[1]", "Duplicate"}},
		"one range within another": {nodeNetwork("n1 Further 10.200.1.0/24", "n2 Further 10.200.1.128/25"), []string{"spec.ranges", "overlap", "Remedy"}},
		"the same of IPv6":         {nodeNetwork("n1 Further fd00:1:2::/64", "n2 Further fd00:1::/32"), []string{"spec.ranges", "overlap", "Remedy"}},
		"a retired one as well":    {nodeNetwork("n1 Retired 10.200.1.0/24", "n2 Further 10.200.0.0/16"), []string{"spec.ranges", "overlap", "Remedy"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := env.Client.Create(t.Context(), tc.object, client.DryRunAll)
			if !apierrors.IsInvalid(err) {
				t.Fatalf("created: %v, want it refused", err)
			}
			for _, word := range tc.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%v lacks %q", err, word)
				}
			}
		})
	}
}

// TestTheLargestNodeNetworkIsStored compares the ranges of as many nodes as the CRD allows: the comparison of each pair
// must not cost the API server more than it allows.
func TestTheLargestNodeNetworkIsStored(t *testing.T) {
	env.Since(t, 31, "CEL functions for networks")
	o := nodeNetwork()
	o.Spec.MTU = 1450
	for i := range 128 {
		o.Spec.Ranges = append(o.Spec.Ranges, v1alpha1.NodeRange{
			Node: fmt.Sprintf("a-node-with-a-long-name-%d.example.com", i), CIDR: fmt.Sprintf("2001:db8:1111:2222:3333:4444:%x:0/112", 0x1000+i),
		})
	}
	if err := env.Client.Create(t.Context(), o, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if got := o.Spec.Ranges[0].Use; got != v1alpha1.RangeFurther {
		t.Errorf("use is %q by default, want Further", got)
	}
	o = nodeNetwork()
	for i := range 129 {
		o.Spec.Ranges = append(o.Spec.Ranges, v1alpha1.NodeRange{Node: "n1", CIDR: fmt.Sprintf("10.200.%d.0/24", i)})
	}
	if err := env.Client.Create(t.Context(), o, client.DryRunAll); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.ranges") {
		t.Errorf("129 ranges: %v, want them refused", err)
	}
}

// TestARangeIsRetiredBeforeItIsRemoved changes an object: pods of one node must not meet pods of another that has their
// addresses.
func TestARangeIsRetiredBeforeItIsRemoved(t *testing.T) {
	env.Since(t, 31, "CEL functions for networks")
	o := nodeNetwork("n1 Further 10.200.1.0/24", "n2 Retired 10.200.2.0/24")
	env.Create(t, o)
	for name, tc := range map[string]struct {
		to      *v1alpha1.NodeNetwork
		refused bool
	}{
		"removed":                       {nodeNetwork("n2 Retired 10.200.2.0/24"), true},
		"given to another node":         {nodeNetwork("n2 Further 10.200.1.0/24", "n2 Retired 10.200.2.0/24"), true},
		"given to another as a part":    {nodeNetwork("n2 Further 10.200.1.0/25", "n2 Retired 10.200.2.0/24"), true},
		"all removed":                   {nodeNetwork(), true},
		"retired":                       {nodeNetwork("n1 Retired 10.200.1.0/24", "n2 Retired 10.200.2.0/24"), false},
		"a retired one removed":         {nodeNetwork("n1 Further 10.200.1.0/24"), false},
		"a retired one in use again":    {nodeNetwork("n1 Further 10.200.1.0/24", "n2 Instead 10.200.2.0/24"), false},
		"a retired one of another node": {nodeNetwork("n1 Further 10.200.1.0/24", "n1 Further 10.200.2.0/24"), false},
	} {
		t.Run(name, func(t *testing.T) {
			tc.to.ResourceVersion = o.ResourceVersion
			err := env.Client.Update(t.Context(), tc.to, client.DryRunAll)
			if tc.refused && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "set use to Retired")) || !tc.refused && err != nil {
				t.Errorf("update: %v, want refused %t", err, tc.refused)
			}
		})
	}
}
