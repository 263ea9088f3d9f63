package plan_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// files returns network configurations without content.
func files(names ...string) (all []plan.ConfigFile) {
	for _, name := range names {
		all = append(all, plan.ConfigFile{Name: name, Data: []byte("{}")})
	}
	return all
}

func TestOwnNetwork(t *testing.T) {
	self, other := nodeWith("n1", []string{"10.1.1.0/24"}, "192.0.2.1"), nodeWith("n2", []string{"10.1.2.0/24"}, "192.0.2.2")
	for name, tc := range map[string]struct {
		nodes   []corev1.Node
		configs []string
		foreign string
		routes  int
		err     error
	}{
		"routes and network configuration":              {nodes: []corev1.Node{self, other}, routes: 2},
		"other configurations behind ours":              {nodes: []corev1.Node{self, other}, configs: []string{"10-limpet.conflist", "99-other.conf"}, routes: 2},
		"another network's configuration in front":      {nodes: []corev1.Node{self, other}, configs: []string{"05-other.conflist", "10-limpet.conflist"}, foreign: "05-other.conflist"},
		"the node is not registered yet":                {nodes: []corev1.Node{other}, routes: 1, err: plan.ErrNotRegistered},
		"the node has no pod CIDR":                      {nodes: []corev1.Node{nodeWith("n1", nil, "192.0.2.1"), other}, routes: 1, err: plan.ErrNoPodCIDR},
		"the node is alone in the cluster, with a CIDR": {nodes: []corev1.Node{self}, routes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := plan.OwnNetwork(plan.OwnNetworkInput{Node: "n1", Nodes: tc.nodes, Configs: files(tc.configs...)})
			if d.Foreign != tc.foreign || len(d.Routes) != tc.routes || !errors.Is(d.Err, tc.err) {
				t.Errorf("got foreign %q, routes %v, error %v; want %q, %d, %v", d.Foreign, d.Routes, d.Err, tc.foreign, tc.routes, tc.err)
			}
			if (len(d.Conflist) > 0) != (tc.foreign == "" && tc.err == nil) {
				t.Errorf("network configuration: %q", d.Conflist)
			}
		})
	}
}

func TestConflist(t *testing.T) {
	defaults := plan.PluginOptions{MaxRetain: reservation.DefaultMaxRetain, SharePercent: reservation.DefaultSharePercent}
	for name, tc := range map[string]struct {
		cidrs   []string
		options plan.PluginOptions
		ipam    string
	}{
		"one family, the plugin's defaults": {
			cidrs: []string{"10.1.1.0/24"}, options: defaults,
			ipam: `{"type": "limpet-ipam", "node": "n1", "ranges": [[{"subnet": "10.1.1.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}`,
		},
		"two families, all options": {
			cidrs: []string{"10.1.1.7/24", "fd01::/64"}, options: plan.PluginOptions{DataDir: "/data", MaxRetain: time.Hour, SharePercent: 0},
			ipam: `{"type": "limpet-ipam", "node": "n1", "dataDir": "/data", "maxReservation": "1h0m0s", "maxReservedPercent": 0,
				"ranges": [[{"subnet": "10.1.1.0/24"}], [{"subnet": "fd01::/64"}]], "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := plan.OwnNetwork(plan.OwnNetworkInput{Node: "n1", Nodes: []corev1.Node{nodeWith("n1", tc.cidrs)}, Options: tc.options})
			wanted := strings.Replace(`{"cniVersion": "1.1.0", "name": "limpet", "plugins": [
				{"type": "ptp", "ipMasq": false, "capabilities": {"io.kubernetes.cri.pod-annotations": true}, "ipam": IPAM},
				{"type": "portmap", "snat": true, "capabilities": {"portMappings": true}}]}`, "IPAM", tc.ipam, 1)
			var got, want any
			if err := errors.Join(d.Err, json.Unmarshal(d.Conflist, &got), json.Unmarshal([]byte(wanted), &want)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
