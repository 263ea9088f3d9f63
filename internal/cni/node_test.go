package cni_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/limpet-io/limpet/internal/cni"
	"github.com/limpet-io/limpet/internal/cni/coexist"
	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/cni/node"
	"github.com/limpet-io/limpet/internal/cni/recovery"
	"github.com/limpet-io/limpet/internal/cni/skel"
	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

const network = reservation.FollowNetwork

// ranges make a pool of six IPv4 and many IPv6 addresses, small enough to be exhausted now and
// then.
const ranges = `[[{"subnet":"10.1.0.0/29"}],[{"subnet":"fd00:1::/64"}]]`

// testNode is a machine for the plugin: clocks that a test moves, network namespaces
// that it makes and removes, and a real state file.
type testNode struct {
	t        testing.TB
	plugin   *cni.Plugin
	recovery *recovery.Recovery
	beside   *coexist.Neighbour
	dir      string
	results  string
	out      bytes.Buffer
	log      bytes.Buffer

	now     reservation.Moment
	elapsed time.Duration // true time since the beginning, independent of the clocks
	netns   map[string]reservation.NetNS
	inside  map[string][]netip.Addr // what the interfaces in a namespace have, by its path
	stuck   bool                    // interface plugins are killed after their IPAM DEL, so that the interface stays
	orphan  bool
	inode   uint64
	forgot  []netip.Addr // by the node's table of neighbours
	owners  []netip.Addr // whose former owners the node forgot
	uses    map[netip.Addr]ipam.Use
	ipam    map[string]any // keys of ipam beyond the usual, or instead
	took    time.Duration  // real time of the latest verb
}

// bystander is a container whose result libcni keeps from the start: results of the network are kept.
var bystander = sandbox{id: "bystander", ifName: "eth0"}

func newTestNode(t testing.TB) *testNode {
	t.Helper()
	w := &testNode{
		t: t, dir: filepath.Join(t.TempDir(), "state"), results: t.TempDir(),
		now:   reservation.Moment{Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), BootID: "boot-0", Up: time.Hour},
		netns: map[string]reservation.NetNS{}, inside: map[string][]netip.Addr{},
	}
	w.cache(bystander)
	log := slog.New(slog.NewTextHandler(&w.log, nil))
	machine := node.Node{
		Now:        func() reservation.Moment { return w.now },
		NetNS:      func(path string) (reservation.NetNS, bool) { n, ok := w.netns[path]; return n, ok },
		Has:        w.has,
		ResultsDir: w.results,
	}
	hostLocal := &coexist.Neighbour{Node: machine}
	w.beside = hostLocal
	w.recovery = &recovery.Recovery{Node: machine, Others: hostLocal, Log: log}
	w.plugin = &cni.Plugin{
		Node: machine, Rebuilt: w.recovery.Open, HostLocal: hostLocal.Open, Rebuild: w.recovery.Rebuild,
		Forget:      func(addrs []netip.Addr) error { w.forgot = append(w.forgot, addrs...); return nil },
		ForgetOwner: func(addrs []netip.Addr) error { w.owners = append(w.owners, addrs...); return nil },
		UseOf:       func(a netip.Addr) (ipam.Use, error) { return w.uses[a], nil },
		Orphaned:    func() bool { return w.orphan },
		Stdout:      &w.out, Log: log,
	}
	return w
}

// sandbox is a pod's sandbox as its runtime knows it.
type sandbox struct {
	id, pod, uid string
	ns           string // "ns" where empty
	ifName       string
	annotations  map[string]string
}

func (s sandbox) namespace() string { return cmp.Or(s.ns, "ns") }

func (s sandbox) attachment() reservation.AttachmentID {
	return reservation.AttachmentID{Network: network, ContainerID: s.id, IfName: s.ifName}
}

func (s sandbox) owner() reservation.Owner {
	return reservation.Owner{Network: network, Namespace: s.namespace(), Pod: s.pod, IfName: s.ifName}
}

func (s sandbox) required() bool {
	return s.annotations[reservation.ModeAnnotation] == reservation.Required.String()
}

func (s sandbox) asks() bool {
	asks, _ := reservation.ParseRetentionRequest(s.annotations, reservation.DefaultMaxRetain)
	return asks.Retain > 0 || s.required()
}

func (s sandbox) netns() string { return "/netns/" + s.id }

func (w *testNode) args(s sandbox, more map[string]any) *skel.CmdArgs {
	conf := map[string]any{
		"cniVersion": "1.1.0", "name": network, "type": "ptp",
		"ipam":          map[string]any{"type": "limpet-ipam", "dataDir": w.dir, "ranges": json.RawMessage(ranges)},
		"runtimeConfig": map[string]any{"io.kubernetes.cri.pod-annotations": s.annotations},
	}
	maps.Copy(conf["ipam"].(map[string]any), w.ipam)
	maps.Copy(conf, more)
	stdin, err := json.Marshal(conf)
	if err != nil {
		w.t.Fatal(err)
	}
	return &skel.CmdArgs{
		ContainerID: s.id, IfName: s.ifName, Netns: s.netns(), Conf: netconf.Decode(stdin),
		Args: fmt.Sprintf("IgnoreUnknown=1;K8S_POD_NAMESPACE=%s;K8S_POD_NAME=%s;K8S_POD_UID=%s;K8S_POD_INFRA_CONTAINER_ID=%s", s.namespace(), s.pod, s.uid, s.id),
	}
}

// bound is how long a verb may take on a busy machine. It is less than the plugin's own
// bound of the wait for the lock, which no verb here needs.
const bound = persistence.DefaultLockWait - 5*time.Second

// run runs a verb and gives it up when it does not come back (rule 7).
func (w *testNode) run(verb func(*skel.CmdArgs) error, args *skel.CmdArgs) error {
	began, done := time.Now(), make(chan error, 1)
	go func() { done <- verb(args) }()
	select {
	case err := <-done:
		w.took = time.Since(began)
		return err
	case <-time.After(2 * bound):
		w.t.Fatalf("a verb still waits after %s (rule 7)", 2*bound)
		return nil
	}
}

// start makes the sandbox's network namespace, as a runtime does before ADD.
func (w *testNode) start(s sandbox) {
	if _, found := w.netns[s.netns()]; !found {
		w.inode++
		w.netns[s.netns()] = reservation.NetNS{Path: s.netns(), Dev: 4, Inode: w.inode}
		delete(w.inside, s.netns())
	}
}

// has reports whether a namespace that exists has one of the addresses.
func (w *testNode) has(ns reservation.NetNS, addrs []netip.Addr) bool {
	return w.netns[ns.Path] == ns && slices.ContainsFunc(w.inside[ns.Path], func(a netip.Addr) bool { return slices.Contains(addrs, a) })
}

// add runs ADD; on success libcni's cache file appears, as at the end of a chain.
func (w *testNode) add(s sandbox) ([]netip.Addr, error) {
	addrs, err := w.addUncached(s, nil)
	if err == nil {
		w.cache(s)
	}
	return addrs, err
}

func (w *testNode) cache(s sandbox) {
	if err := os.WriteFile(w.cacheFile(s), []byte("{}"), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *testNode) cacheFile(s sandbox) string {
	return filepath.Join(w.results, network+"-"+s.id+"-"+s.ifName)
}

func (w *testNode) addUncached(s sandbox, more map[string]any) ([]netip.Addr, error) {
	w.out.Reset()
	if err := w.run(w.plugin.Funcs().Add, w.args(s, more)); err != nil {
		if w.out.Len() > 0 {
			w.t.Fatalf("a failing ADD printed %s", w.out.String())
		}
		return nil, err
	}
	var result struct {
		IPs []struct {
			Address netip.Prefix `json:"address"`
		} `json:"ips"`
	}
	if err := json.Unmarshal(w.out.Bytes(), &result); err != nil {
		w.t.Fatalf("result %s: %v", w.out.String(), err)
	}
	var addrs []netip.Addr
	for _, ip := range result.IPs {
		addrs = append(addrs, ip.Address.Addr())
	}
	w.inside[s.netns()] = append(w.inside[s.netns()], addrs...)
	return addrs, nil
}

// del runs DEL. Then the interface plugin removes the interface, and libcni the cache file.
func (w *testNode) del(s sandbox) error {
	err := w.run(w.plugin.Funcs().Del, w.args(s, nil))
	if err == nil && !w.stuck {
		delete(w.inside, s.netns())
	}
	_ = os.Remove(w.cacheFile(s)) // there is none after a rollback
	return err
}

// pass lets time pass, by every clock.
func (w *testNode) pass(d time.Duration) {
	w.elapsed += d
	w.now.Up += d
	w.now.Wall = w.now.Wall.Add(d)
}

// step moves the wall clock only.
func (w *testNode) step(d time.Duration) { w.now.Wall = w.now.Wall.Add(d) }

// reboot ends every network namespace and begins another count of up time.
func (w *testNode) reboot(off time.Duration) {
	w.pass(off)
	w.now.BootID += "'"
	w.now.Up = time.Second
	clear(w.netns)
}

// state is the content of the state file as plain maps.
type state struct {
	Attached map[reservation.AttachmentID]reservation.Attachment
	Reserved map[reservation.Owner]reservation.Reservation
	Counted  int64 // the stored number of reservations
}

func (w *testNode) read() state {
	w.t.Helper()
	s := state{Attached: map[reservation.AttachmentID]reservation.Attachment{}, Reserved: map[reservation.Owner]reservation.Reservation{}}
	err := persistence.New(persistence.Options{Dir: w.dir}).View(w.t.Context(), func(tx *persistence.Tx) error {
		attached, err := tx.Attachments(network)
		if err != nil {
			return err
		}
		for _, a := range attached {
			s.Attached[a.ID] = a
		}
		reserved, err := tx.Reservations(network)
		for _, r := range reserved {
			s.Reserved[r.Owner] = r
		}
		pressure, err2 := tx.PoolUsage(network)
		s.Counted = pressure.Reserved
		return errors.Join(err, err2)
	})
	if err != nil && !errors.Is(err, persistence.ErrNoState) {
		w.t.Fatal(err)
	}
	return s
}

// codeOf returns the CNI code of an error, 0 for none.
func codeOf(err error) uint {
	if coded, ok := errors.AsType[*types.Error](err); ok {
		return coded.Code
	}
	if err != nil {
		return types.ErrInternal
	}
	return 0
}
