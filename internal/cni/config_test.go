package cni_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/limpet-io/limpet/internal/cni"
)

var web0 = sandbox{id: "c0", pod: "web-0", uid: "uid", ifName: "eth0"}

// ipamWith returns a change of the network configuration's ipam section.
func (w *testNode) ipamWith(change string) map[string]any {
	ipam := map[string]any{"type": "limpet-ipam", "dataDir": w.dir, "ranges": json.RawMessage(ranges)}
	if err := json.Unmarshal([]byte(change), &ipam); err != nil {
		w.t.Fatal(err)
	}
	return map[string]any{"ipam": ipam}
}

func TestABrokenConfigurationFailsAddButNotDel(t *testing.T) {
	for name, tc := range map[string]struct {
		ipam string
		want string // in the message
	}{
		"no ranges":                     {`{"ranges":[]}`, "no IP ranges specified"},
		"a log file by a relative path": {`{"logFile":"ipam.log"}`, `ipam.logFile: "ipam.log"`},
		"a log without room":            {`{"logMaxBytes":0}`, "ipam.logMaxBytes: 0"},
		"ranges of the wrong type":      {`{"ranges":"10.0.0.0/8"}`, "ipam.ranges"},
		"an empty set":                  {`{"ranges":[[]]}`, "invalid range set 0: empty range set"},
		"no subnet":                     {`{"ranges":[[{}]]}`, "ipam.ranges[0][0].subnet"},
		"a subnet with host bits":       {`{"ranges":[[{"subnet":"10.1.0.1/24"}]]}`, "Network has host bits set. For a subnet mask of length 24 the network address is 10.1.0.0"},
		"a subnet too small":            {`{"ranges":[[{"subnet":"10.1.0.0/31"}]]}`, "Network 10.1.0.0/31 too small to allocate from"},
		"a start outside":               {`{"ranges":[[{"subnet":"10.1.0.0/24","rangeStart":"10.2.0.1"}]]}`, "RangeStart 10.2.0.1 not in network 10.1.0.0/24"},
		"an end outside":                {`{"ranges":[[{"subnet":"10.1.0.0/24","rangeEnd":"10.2.0.1"}]]}`, "RangeEnd 10.2.0.1 not in network 10.1.0.0/24"},
		"no address at all":             {`{"ranges":[[{"subnet":"10.1.0.0/24","gateway":"here"}]]}`, "[0][0].gateway"},
		"mixed families":                {`{"ranges":[[{"subnet":"10.1.0.0/24"},{"subnet":"fd00::/64"}]]}`, "invalid range set 0: mixed address families"},
		"overlapping ranges":            {`{"ranges":[[{"subnet":"10.1.0.0/24"},{"subnet":"10.1.0.0/25"}]]}`, "invalid range set 0: subnets 10.1.0.1-10.1.0.254 and 10.1.0.1-10.1.0.126 overlap"},
		"overlapping sets":              {`{"ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"10.1.0.0/25"}]]}`, "range set 0 overlaps with 1"},
		"a route that is none":          {`{"routes":[{"dst":"x"}]}`, "ipam.routes"},
		"an unknown exhaustion policy":  {`{"onExhaustion":"panic"}`, "ipam.onExhaustion"},
		"a share of more than all":      {`{"maxReservedPercent":101}`, "ipam.maxReservedPercent: 101 is not"},
		"a share of less than nothing":  {`{"maxReservedPercent":-1}`, "ipam.maxReservedPercent: -1 is not"},
		"a share in words":              {`{"maxReservedPercent":"half"}`, "ipam.maxReservedPercent: a JSON string is not allowed here"},
		"a quota of no pods":            {`{"maxReservedPerNamespace":0}`, "ipam.maxReservedPerNamespace: 0 is not"},
		"a quota in words":              {`{"maxReservedPerNamespace":"few"}`, "ipam.maxReservedPerNamespace: a JSON string is not allowed here"},
		"a quota of nothing":            {`{"maxReservedPercentPerNamespace":0}`, "ipam.maxReservedPercentPerNamespace: 0 is not"},
		"a quota of more than all":      {`{"maxReservedPercentPerNamespace":101}`, "ipam.maxReservedPercentPerNamespace: 101 is not"},
		"a maximum without a unit":      {`{"maxReservation":"24"}`, "ipam.maxReservation"},
		"a negative wait":               {`{"predecessorWait":"-1s"}`, "ipam.predecessorWait"},
		"an endless wait of one ADD":    {`{"addWait":"61s"}`, "ipam.addWait: \"61s\" is longer than 1m0s"},
		"a wait that is a word":         {`{"addWait":"never"}`, "ipam.addWait"},
		"a negative release delay":      {`{"releaseDelay":"-1s"}`, "ipam.releaseDelay"},
		"a release delay in seconds":    {`{"releaseDelay":30}`, "ipam.releaseDelay: a JSON number is not allowed here"},
		"a lock wait of nothing":        {`{"lockWait":"0s"}`, "ipam.lockWait"},
		"a resolv.conf that is absent":  {`{"resolvConf":"/does/not/exist"}`, "ipam.resolvConf"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			if _, err := w.add(web0); err != nil {
				t.Fatal(err)
			}
			broken := w.ipamWith(tc.ipam)
			other := web0
			other.id = "c1"
			_, err := w.addUncached(other, broken)
			if codeOf(err) != types.ErrInvalidNetworkConfig || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("ADD: code %d, %v; want code 7 with %q", codeOf(err), err, tc.want)
			}
			if err := w.plugin.Funcs().Del(w.args(web0, broken)); err != nil {
				t.Errorf("DEL: %v", err)
			}
			if left := w.read().Attached; len(left) != 0 {
				t.Errorf("DEL left %v", left)
			}
		})
	}
}

func TestRequestedAddresses(t *testing.T) {
	for name, tc := range map[string]struct {
		args string // of CNI_ARGS
		more string // in the configuration
		want string // the addresses, or part of the message
		code uint
	}{
		"by CNI_ARGS":                 {args: ";IP=10.1.0.5", want: "10.1.0.5 fd00:1::3"},
		"by CNI_ARGS with a length":   {args: ";IP=10.1.0.5/29", want: "10.1.0.5 fd00:1::3"},
		"by args, for each set":       {more: `{"args":{"cni":{"ips":["fd00:1::9","10.1.0.4/24"]}}}`, want: "10.1.0.4 fd00:1::9"},
		"by the runtime":              {more: `{"runtimeConfig":{"ips":["10.1.0.3"]}}`, want: "10.1.0.3 fd00:1::3"},
		"ranges of the runtime first": {more: `{"runtimeConfig":{"ipRanges":[[{"subnet":"10.9.0.0/24"}]]}}`, want: "10.9.0.2 10.1.0.2 fd00:1::3"},
		"the gateway":                 {args: ";IP=10.1.0.1", want: "requested ip 10.1.0.1 is subnet's gateway", code: cni.CodeRequested},
		"one that is held":            {args: ";IP=10.1.0.6", want: "requested IP address 10.1.0.6 is not available in range set 10.1.0.1-10.1.0.6", code: cni.CodeRequested},
		"one that is in no set":       {args: ";IP=10.2.0.6", want: "failed to allocate all requested IPs: 10.2.0.6", code: cni.CodeRequested},
		"two of one set":              {more: `{"args":{"cni":{"ips":["10.1.0.3","10.1.0.4"]}}}`, want: "failed to allocate all requested IPs: 10.1.0.4", code: cni.CodeRequested},
		"no address":                  {args: ";IP=here", want: `invalid IP address here`, code: types.ErrInvalidEnvironmentVariables},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			holder := sandbox{id: "holder", pod: "holder", ifName: "eth0"}
			args := w.args(holder, nil)
			args.Args += ";IP=10.1.0.6"
			if err := w.plugin.Funcs().Add(args); err != nil {
				t.Fatal(err)
			}
			w.out.Reset()
			more := map[string]any{}
			if tc.more != "" {
				if err := json.Unmarshal([]byte(tc.more), &more); err != nil {
					t.Fatal(err)
				}
			}
			args = w.args(web0, more)
			args.Args += tc.args
			err := w.plugin.Funcs().Add(args)
			if codeOf(err) != tc.code {
				t.Fatalf("code %d, %v; want %d", codeOf(err), err, tc.code)
			}
			got := fmt.Sprint(err)
			if err == nil {
				got = fmt.Sprint(w.read().Attached[web0.attachment()].Addresses)
			}
			if !strings.Contains(got, tc.want) {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestOverlapErrorsNameBothKeys has range sets that are valid alone and not together. The error names
// the keys of both.
func TestOverlapErrorsNameBothKeys(t *testing.T) {
	for name, tc := range map[string]struct{ conf, want string }{
		"an overlap within the configuration": {
			`{"ipam":{"ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"10.1.0.0/25"}]]}}`, "ipam.ranges[0] and ipam.ranges[1]: range set 0 overlaps with 1: ",
		},
		"an overlap with what the runtime brings": {
			`{"ipam":{"ranges":[[{"subnet":"10.2.0.0/24"}],[{"subnet":"10.1.0.0/24"}]]},"runtimeConfig":{"ipRanges":[[{"subnet":"10.1.0.0/25"}]]}}`,
			"runtimeConfig.ipRanges[0] and ipam.ranges[1]: range set 0 overlaps with 2: ",
		},
		"an overlap within what the runtime brings": {
			`{"ipam":{},"runtimeConfig":{"ipRanges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"10.1.0.0/25"}]]}}`,
			"runtimeConfig.ipRanges[0] and runtimeConfig.ipRanges[1]: range set 0 overlaps with 1: ",
		},
		"more of a family than an old version has room for": {
			`{"cniVersion":"0.2.0","ipam":{"subnet":"10.2.0.0/24"},"runtimeConfig":{"ipRanges":[[{"subnet":"10.1.0.0/24"}]]}}`,
			"ipam: CNI version 0.2.0 does not support more than 1 address per family",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newTestNode(t), plain("web")
			more := map[string]any{}
			if err := json.Unmarshal([]byte(tc.conf), &more); err != nil {
				t.Fatal(err)
			}
			_, err := w.addUncached(s, more)
			if codeOf(err) != types.ErrInvalidNetworkConfig || !strings.HasPrefix(fmt.Sprint(err), tc.want) {
				t.Errorf("code %d, %v; want code 7 and %q", codeOf(err), err, tc.want)
			}
		})
	}
}

func TestDNSOfTheResult(t *testing.T) {
	w := newTestNode(t)
	path := filepath.Join(t.TempDir(), "resolv.conf")
	text := "# comment\nnameserver 192.0.2.3\n;nameserver 192.0.2.4\ndomain example.com\nsearch a.example b.example\noptions ndots:5\nnameserver\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.addUncached(web0, w.ipamWith(fmt.Sprintf(`{"resolvConf":%q}`, path))); err != nil {
		t.Fatal(err)
	}
	want := `"dns":{"domain":"example.com","nameservers":["192.0.2.3"],"options":["ndots:5"],"search":["a.example","b.example"]}`
	if got := strings.Join(strings.Fields(w.out.String()), ""); !strings.Contains(got, want) {
		t.Errorf("result %s, want %s", got, want)
	}
}

func TestAddressesFollowInRoundRobin(t *testing.T) {
	w := newTestNode(t)
	var got []string
	for i := range 8 {
		s := sandbox{id: fmt.Sprintf("c%d", i), pod: "p", ifName: "eth0"}
		addrs, err := w.add(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.del(s); err != nil {
			t.Fatal(err)
		}
		got = append(got, addrs[0].String())
	}
	want := "10.1.0.2 10.1.0.3 10.1.0.4 10.1.0.5 10.1.0.6 10.1.0.2 10.1.0.3 10.1.0.4"
	if strings.Join(got, " ") != want {
		t.Errorf("handed out %v, want %s", got, want)
	}
}

func TestGarbageCollection(t *testing.T) {
	for name, tc := range map[string]struct {
		more map[string]any
		left int
	}{
		"without the list nothing is known":   {left: 2},
		"a null list leaves nothing":          {more: map[string]any{"cni.dev/valid-attachments": nil}},
		"an empty list leaves nothing":        {more: map[string]any{"cni.dev/valid-attachments": []string{}}},
		"what is listed stays":                {more: map[string]any{"cni.dev/valid-attachments": []map[string]string{{"containerID": "c0", "ifname": "eth0"}}}, left: 1},
		"another interface is not the listed": {more: map[string]any{"cni.dev/valid-attachments": []map[string]string{{"containerID": "c0", "ifname": "net1"}}}, left: 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			for i, pod := range []string{"web-0", "web-1"} {
				s := sandbox{id: fmt.Sprintf("c%d", i), pod: pod, ifName: "eth0", annotations: map[string]string{"io.kubernetes.cri/reserved-ip-duration": "10"}}
				if _, err := w.add(s); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.plugin.Funcs().GC(w.args(web0, tc.more)); err != nil {
				t.Fatal(err)
			}
			s := w.read()
			if len(s.Attached) != tc.left || len(s.Reserved) != 2-tc.left {
				t.Errorf("%d attached, %d reserved; want %d and %d", len(s.Attached), len(s.Reserved), tc.left, 2-tc.left)
			}
		})
	}
}

func TestCheckAndStatus(t *testing.T) {
	w := newTestNode(t)
	if err := w.plugin.Funcs().Status(w.args(web0, nil)); err != nil {
		t.Errorf("STATUS on a new node: %v", err)
	}
	if err := w.plugin.Funcs().Check(w.args(web0, nil)); codeOf(err) != cni.CodeUnknown {
		t.Errorf("CHECK before ADD: %v", err)
	}
	addrs, err := w.add(web0)
	if err != nil {
		t.Fatal(err)
	}
	prev := func(a string) map[string]any {
		return map[string]any{"prevResult": map[string]any{"cniVersion": "1.1.0", "ips": []map[string]string{{"address": a}, {"address": addrs[1].String() + "/64"}}}}
	}
	if err := w.plugin.Funcs().Check(w.args(web0, prev(addrs[0].String()+"/29"))); err != nil {
		t.Errorf("CHECK: %v", err)
	}
	if err := w.plugin.Funcs().Check(w.args(web0, prev("10.1.0.6/29"))); codeOf(err) != cni.CodeUnknown {
		t.Errorf("CHECK with another address: %v", err)
	}
	w.damage(func(path string) error { return os.Truncate(path, 0) })
	w.forbidRepair()
	if err := w.plugin.Funcs().Status(w.args(web0, nil)); codeOf(err) != 50 {
		t.Errorf("STATUS with a state that cannot be repaired: %v, want code 50", err)
	}
	if _, err := w.add(sandbox{id: "c9", pod: "p", ifName: "eth0"}); codeOf(err) != types.ErrIOFailure {
		t.Errorf("ADD with a state that cannot be repaired: %v, want code 5", err)
	}
}
