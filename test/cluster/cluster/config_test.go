package cluster_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/test/cluster/cluster"
)

func TestNamesThatCouldReachBeyondTheClusterAreRefused(t *testing.T) {
	for _, name := range []string{"..", "a/b", "*", "e2e-1", "UPPER", "ninechars", "a b"} {
		if err := cluster.Down(name); err == nil {
			t.Errorf("Down(%q) is content, want an error", name)
		}
		if _, err := cluster.Up(t.Context(), cluster.Config{Name: name}); err == nil || !strings.Contains(err.Error(), "name") {
			t.Errorf("Up(%q) = %v, want an error about the name", name, err)
		}
		if _, err := cluster.Attach(name); err == nil || !strings.Contains(err.Error(), "name") {
			t.Errorf("Attach(%q) = %v, want an error about the name", name, err)
		}
		if err := cluster.EnterCgroups(name, "n1"); err == nil {
			t.Errorf("EnterCgroups(%q) is content, want an error", name)
		}
	}
}

func TestNumbersOfNodesThatHaveNoAddressesAreRefused(t *testing.T) {
	for _, nodes := range []int{-1, 10} {
		if _, err := cluster.Up(t.Context(), cluster.Config{Name: "toomany", Nodes: nodes}); err == nil || !strings.Contains(err.Error(), "nodes") {
			t.Errorf("Up with %d nodes = %v, want an error about nodes", nodes, err)
		}
	}
}

func TestPodCIDRsAreGivenInTheFamiliesThatThereAre(t *testing.T) {
	tests := map[string]struct {
		config     cluster.Config
		want       string
		wantMask6  bool
		wantV6Args bool
	}{
		"both families": {want: "--cluster-cidr=10.244.0.0/16,fd00:10:244::/56", wantMask6: true, wantV6Args: true},
		"IPv4 only":     {config: cluster.Config{IPv4Only: true}, want: "--cluster-cidr=10.244.0.0/16"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			args := cluster.Arguments(tc.config, cluster.ControllerManager)
			if !slices.Contains(args, tc.want) {
				t.Errorf("no %s in %q", tc.want, args)
			}
			if got := slices.Contains(args, "--node-cidr-mask-size-ipv6=64"); got != tc.wantMask6 {
				t.Errorf("a mask size for IPv6 is given: %v, want %v", got, tc.wantMask6)
			}
			server := strings.Join(cluster.Arguments(tc.config, cluster.APIServer), " ")
			if got := strings.Contains(server, "fd00"); got != tc.wantV6Args {
				t.Errorf("the API server is told of IPv6: %v, want %v", got, tc.wantV6Args)
			}
		})
	}
}

func TestTheAPIServerWritesAnAuditLogIfThereIsAPolicy(t *testing.T) {
	for policy, want := range map[string]bool{"": false, "kind: Policy": true} {
		args := strings.Join(cluster.Arguments(cluster.Config{Name: "audited", AuditPolicy: policy}, cluster.APIServer), " ")
		if strings.Contains(args, "--audit-log-path=") != want || strings.Contains(args, "--audit-policy-file=") != want {
			t.Errorf("with the policy %q: %s", policy, args)
		}
	}
}

func TestEveryComponentOfTheControlPlaneHasArguments(t *testing.T) {
	var seen []string
	for _, k := range []cluster.Component{cluster.Etcd, cluster.APIServer, cluster.ControllerManager, cluster.Scheduler} {
		args := cluster.Arguments(cluster.Config{Name: "args"}, k)
		if len(args) == 0 {
			t.Errorf("%s has no arguments", k)
		}
		for i, a := range args {
			flag, _, ok := strings.Cut(a, "=")
			if (!ok && a != "--unsafe-no-fsync") || !strings.HasPrefix(flag, "--") {
				t.Errorf("%s: argument %d is %q, want --flag=value", k, i, a)
			}
			if slices.Contains(seen, string(k)+flag) {
				t.Errorf("%s: %s is given twice", k, flag)
			}
			seen = append(seen, string(k)+flag)
		}
	}
}
