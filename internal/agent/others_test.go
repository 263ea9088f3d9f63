package agent_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/limpet-io/limpet/internal/agent"
	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/testenv"
)

// TestOthersEditTheNetworkConfiguration has a service mesh chain its plugin, and a program that changes the file back
// each time.
func TestOthersEditTheNetworkConfiguration(t *testing.T) {
	inNetNS(t)
	n := newNode(t, "edited-1")
	n.OwnNetwork = true
	path := filepath.Join(n.ConfDir, "10-limpet.conflist")
	own := peer(n.Node, []string{"10.3.1.0/24"}, "192.0.2.1")
	env.Create(t, own)
	testenv.Eventually(t, n.start(t).Ready)
	repaired := func(want string) error {
		data, err := os.ReadFile(path)
		if err == nil && (!strings.Contains(string(data), "10.3.1.0/24") || !strings.Contains(string(data), want)) {
			err = errors.New(string(data))
		}
		return err
	}
	n.write(t, path, `{"name": "limpet", "cniVersion": "1.1.0", "plugins": [{"type": "ptp"}, {"type": "portmap"}, {"type": "istio-cni"}]}`)
	testenv.Eventually(t, func() error { return repaired("istio-cni") })
	failures, _ := n.metric(t, "limpet_agent_failures_total network")
	for i := range 8 { // of the program that does not give in
		n.write(t, path, `{"name": "limpet", "plugins": [{"type": "bridge", "ipam": {"type": "host-local"}}]}`)
		if own.Labels = map[string]string{"round": fmt.Sprint(i)}; env.Client.Update(t.Context(), own) != nil { // the next round begins
			t.Fatal("update the Node")
		}
		testenv.Eventually(t, func() error {
			if now, _ := n.metric(t, "limpet_agent_failures_total network"); now > failures && i >= 6 {
				return nil // the agent makes a pause
			}
			return repaired("ptp")
		})
	}
	if err := repaired("ptp"); err == nil {
		t.Error("the agent does not give in")
	}
}

// TestForwardedPacketsThatAreDropped makes chains of nftables as iptables, Docker and ufw do.
func TestForwardedPacketsThatAreDropped(t *testing.T) {
	inNetNS(t)
	dropped := func(step, want string) {
		t.Helper()
		if got, err := agent.ForwardDrops(); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", step, got, err, want)
		}
	}
	dropped("no chains", "")
	makeChain(t, unix.NFPROTO_IPV4, "filter", "FORWARD", unix.NF_INET_FORWARD, 1)
	makeChain(t, unix.NFPROTO_IPV4, "mesh", "input", unix.NF_INET_LOCAL_IN, 0)
	dropped("forwarding is accepted, input dropped", "")
	makeChain(t, unix.NFPROTO_IPV4, "filter", "FORWARD", unix.NF_INET_FORWARD, 0)
	dropped("Docker", "filter FORWARD")
	makeChain(t, unix.NFPROTO_INET, "ufw", "forward", unix.NF_INET_FORWARD, 0)
	dropped("another firewall", "filter FORWARD, ufw forward")
}

// TestADroppingFirewallIsTold runs an agent in a network namespace of its own.
func TestADroppingFirewallIsTold(t *testing.T) {
	inNetNS(t)
	makeChain(t, unix.NFPROTO_IPV4, "filter", "FORWARD", unix.NF_INET_FORWARD, 0)
	n := newNode(t, "firewall-1")
	n.OwnNetwork = true
	a, err := agent.New(n.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	told := make(chan []string, 1)
	go func() {
		defer stop()
		var all []string
		if wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
			all = n.messages(t, plan.ReasonForwardingDropped) //nolint:contextcheck // it has the context of the test
			return len(all) > 0, nil
		}) == nil {
			told <- all
		}
	}()
	if err := a.Run(ctx); err != nil { // the rounds are in this goroutine, whose thread has the namespace
		t.Fatal(err)
	}
	select {
	case all := <-told:
		if len(all) != 1 || !strings.Contains(all[0], "filter FORWARD") {
			t.Errorf("events %q", all)
		}
	default:
		t.Error("no event")
	}
}

// makeChain makes a base chain and its table, or changes its policy: 0 to drop, 1 to accept.
func makeChain(t *testing.T, family byte, table, name string, hook, policy uint32) {
	t.Helper()
	number := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	begin := nl.NewNetlinkRequest(unix.NFNL_MSG_BATCH_BEGIN, 0)
	begin.AddData(&nl.Nfgenmsg{ResId: unix.NFNL_SUBSYS_NFTABLES << 8})
	newTable := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE)
	newTable.AddData(&nl.Nfgenmsg{NfgenFamily: family})
	newTable.AddData(nl.NewRtAttr(unix.NFTA_TABLE_NAME, nl.ZeroTerminated(table)))
	chain := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE|unix.NLM_F_ACK)
	chain.AddData(&nl.Nfgenmsg{NfgenFamily: family})
	chain.AddData(nl.NewRtAttr(unix.NFTA_CHAIN_TABLE, nl.ZeroTerminated(table)))
	chain.AddData(nl.NewRtAttr(unix.NFTA_CHAIN_NAME, nl.ZeroTerminated(name)))
	at := nl.NewRtAttr(unix.NFTA_CHAIN_HOOK|unix.NLA_F_NESTED, nil)
	at.AddRtAttr(unix.NFTA_HOOK_HOOKNUM, number(hook))
	at.AddRtAttr(unix.NFTA_HOOK_PRIORITY, number(0))
	chain.AddData(at)
	chain.AddData(nl.NewRtAttr(unix.NFTA_CHAIN_POLICY, number(policy)))
	chain.AddData(nl.NewRtAttr(unix.NFTA_CHAIN_TYPE, nl.ZeroTerminated("filter")))
	end := nl.NewNetlinkRequest(unix.NFNL_MSG_BATCH_END, 0)
	end.AddData(&nl.Nfgenmsg{ResId: unix.NFNL_SUBSYS_NFTABLES << 8})
	socket, err := nl.Subscribe(unix.NETLINK_NETFILTER)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	batch := slices.Concat(begin.Serialize(), newTable.Serialize(), chain.Serialize(), end.Serialize())
	if err := unix.Sendto(socket.GetFd(), batch, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		t.Fatal(err)
	}
	answer, _, err := socket.Receive()
	if err != nil || len(answer) == 0 || binary.NativeEndian.Uint32(answer[0].Data) != 0 {
		t.Fatalf("make chain %s %s: %v, %v", table, name, answer, err)
	}
}
