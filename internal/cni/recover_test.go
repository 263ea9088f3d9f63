package cni_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// damages are ways to damage a state. Damage that leaves the tree readable loses nothing; any
// other may lose reservations.
var damages = map[string]struct {
	damage   func(path string) error
	loses    bool // reservations
	noBackup bool // there is no file to keep
	unseen   bool // it looks like a new node, so that only an ADD makes a state
}{
	"removed": {damage: os.Remove, loses: true, noBackup: true},
	"removed with its directory": {
		damage: func(path string) error { return os.RemoveAll(filepath.Dir(path)) }, loses: true, noBackup: true, unseen: true,
	},
	"empty":                   {damage: func(path string) error { return os.Truncate(path, 0) }, loses: true},
	"cut within a page":       {damage: func(path string) error { return os.Truncate(path, 100) }, loses: true},
	"cut to the meta pages":   {damage: func(path string) error { return os.Truncate(path, 8192) }, loses: true},
	"zeroed":                  {damage: overwrite(0, 1<<20, 0), loses: true},
	"all data zeroed":         {damage: overwrite(8192, 1<<20, 0), loses: true},
	"overwritten by garbage":  {damage: overwrite(0, 1<<20, 0xa5), loses: true},
	"first meta page zeroed":  {damage: overwrite(0, 4096, 0)},
	"second meta page zeroed": {damage: overwrite(4096, 8192, 0)},
	"both meta pages zeroed":  {damage: overwrite(0, 8192, 0)}, // salvage recognizes the pages by their content
	"not a database": {
		damage: func(path string) error { return os.WriteFile(path, []byte("limpet"), 0o600) }, loses: true,
	},
	"another program's database": {damage: foreignDatabase, loses: true},
}

// TestStateIsRebuilt is rule 6: however the file is damaged, no address of a running pod is
// handed out, its DEL works, and readable records stay.
func TestStateIsRebuilt(t *testing.T) {
	for name, tc := range damages {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			running, kept, starting := lostSandbox("running", true), lostSandbox("kept", true), lostSandbox("starting", false)
			was := map[string][]netip.Addr{}
			for _, s := range []sandbox{running, kept, starting} {
				w.start(s)
				was[s.pod] = w.mustAdd(s)
			}
			w.cacheWhole(running, was["running"])
			if err := w.del(kept); err != nil {
				t.Fatal(err)
			}
			delete(w.netns, kept.netns())
			w.recovery.Interfaces = w.interfaces(was, running, starting)

			w.damage(tc.damage)
			for i := 0; ; i++ {
				s := lostSandbox("new", false)
				s.id, s.pod = s.id+string(rune('a'+i)), s.pod+string(rune('a'+i))
				addrs, err := w.add(s)
				if err != nil {
					break // the range is exhausted
				}
				for _, a := range addrs {
					if slices.Contains(was["running"], a) || slices.Contains(was["starting"], a) {
						t.Fatalf("%s, which a running pod has, went to %s", a, s.pod)
					}
				}
			}
			if n := strings.Count(w.log.String(), "State was lost or damaged and is rebuilt"); n > 1 || (n == 0 && !tc.unseen) {
				t.Errorf("said %d times that the state was rebuilt:\n%s", n, w.log.String())
			}
			backups, _ := filepath.Glob(filepath.Join(w.dir, "limpet.db.damaged-*"))
			if (len(backups) == 0) != tc.noBackup {
				t.Errorf("kept %q", backups)
			}
			for _, s := range []sandbox{running, starting} {
				if err := w.del(s); err != nil {
					t.Errorf("DEL of %s: %v", s.pod, err)
				}
				delete(w.netns, s.netns())
			}
			if again := w.mustAdd(next(running)); !slices.Equal(again, was["running"]) {
				t.Errorf("the pod came back to %v and got %v", was["running"], again)
			}
		})
	}
}

// TestReservationsOutliveDamage asserts which damage costs a reservation.
func TestReservationsOutliveDamage(t *testing.T) {
	for name, tc := range damages {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			kept := lostSandbox("kept", true)
			w.start(kept)
			was := w.mustAdd(kept)
			if err := w.del(kept); err != nil {
				t.Fatal(err)
			}
			delete(w.netns, kept.netns())
			for _, other := range []string{"a", "b"} { // later commits than the one that reserved
				w.mustAdd(lostSandbox(other, false))
			}
			w.damage(tc.damage)
			w.mustAdd(lostSandbox("c", false))
			if again := w.mustAdd(next(kept)); slices.Equal(again, was) == tc.loses {
				t.Errorf("had %v, got %v", was, again)
			}
		})
	}
}

// TestPodsEndWithoutRepair ends pods although the state can be neither read nor
// repaired.
func TestPodsEndWithoutRepair(t *testing.T) {
	w := newTestNode(t)
	s := lostSandbox("web", true)
	w.start(s)
	addrs := w.mustAdd(s)
	w.damage(func(path string) error { return os.Truncate(path, 100) })
	w.forbidRepair()
	if err := w.del(s); err != nil {
		t.Errorf("DEL: %v", err)
	}
	if _, err := w.add(lostSandbox("other", false)); codeOf(err) != types.ErrIOFailure {
		t.Errorf("ADD: %v, want code 5", err)
	}
	if !strings.Contains(w.log.String(), "State cannot be written") {
		t.Errorf("the log says %s", w.log.String())
	}
	if err := os.RemoveAll(filepath.Join(w.dir, "limpet.db.new")); err != nil {
		t.Fatal(err)
	}
	delete(w.netns, s.netns())
	w.cacheWhole(next(s), addrs) // a stale cache entry gives way
	if _, err := w.add(lostSandbox("other", false)); err != nil {
		t.Errorf("ADD once it can be repaired: %v", err)
	}
}

// TestPodsEndBesideANewerState ends a pod although a newer version has written the state. The newer version then finds
// the address held, and the namespace gone.
func TestPodsEndBesideANewerState(t *testing.T) {
	w := newTestNode(t)
	s := lostSandbox("web", true)
	w.start(s)
	addrs := w.mustAdd(s)
	path := filepath.Join(w.dir, "limpet.db")
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	newer := []byte{0, 0, 0, 2}
	w.damage(func(path string) error {
		db, err := bolt.Open(path, 0o600, nil)
		if err != nil {
			return err
		}
		return errors.Join(db.Update(func(tx *bolt.Tx) error {
			sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(append([]byte("schema"), newer...)))
			meta := tx.Bucket([]byte("meta"))
			return errors.Join(meta.Put([]byte("schema"), newer), meta.Put([]byte("schemasum"), sum))
		}), db.Close())
	})
	for _, which := range []sandbox{s, lostSandbox("unknown", true)} {
		if err := w.plugin.Funcs().Del(w.args(which, nil)); err != nil {
			t.Errorf("DEL of %s: %v", which.id, err)
		}
	}
	if _, err := w.add(lostSandbox("other", false)); codeOf(err) != types.ErrIOFailure || !strings.Contains(err.Error(), "install the newer limpet-ipam again") {
		t.Errorf("ADD: %v, want code 5 with the remedy", err)
	}
	if err := os.WriteFile(path, was, 0o600); err != nil { // as the newer version reads it
		t.Fatal(err)
	}
	delete(w.netns, s.netns())
	if got := w.mustAdd(next(s)); !slices.Equal(got, addrs) {
		t.Errorf("the next life has %v, want %v", got, addrs)
	}
}

// TestEveryVerbRepairs shows that each verb repairs a damaged state, so that a node that
// only answers STATUS recovers.
func TestEveryVerbRepairs(t *testing.T) {
	s := lostSandbox("web", true)
	for name, verb := range map[string]func(*testNode) error{
		"ADD":    func(w *testNode) error { _, err := w.add(lostSandbox("other", false)); return err },
		"DEL":    func(w *testNode) error { return w.plugin.Funcs().Del(w.args(lostSandbox("other", false), nil)) },
		"CHECK":  func(w *testNode) error { return w.plugin.Funcs().Check(w.args(s, nil)) },
		"STATUS": func(w *testNode) error { return w.plugin.Funcs().Status(w.args(s, nil)) },
		"GC": func(w *testNode) error {
			valid := json.RawMessage(`[{"containerID":"c-web","ifname":"eth0"}]`)
			return w.plugin.Funcs().GC(w.args(s, map[string]any{"cni.dev/valid-attachments": valid}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			w.start(s)
			was := w.mustAdd(s)
			w.cacheWhole(s, was)
			w.damage(overwrite(0, 1<<20, 0))
			if err := verb(w); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if a := w.read().Attached[s.attachment()]; !slices.Equal(a.Addresses, was) || a.Retain != 10*time.Minute || a.Owner != s.owner() || a.UID != s.uid {
				t.Errorf("rebuilt %+v", a)
			}
		})
	}
}

// TestDamageIsRepairedOnce runs many verbs that find the damage at the same time.
func TestDamageIsRepairedOnce(t *testing.T) {
	w := newTestNode(t)
	s := lostSandbox("web", true)
	w.start(s)
	was := w.mustAdd(s)
	w.cacheWhole(s, was)
	w.damage(overwrite(0, 1<<20, 0))
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 20 {
		wg.Go(func() {
			if err := w.plugin.Funcs().Check(w.args(s, nil)); err != nil {
				mu.Lock()
				defer mu.Unlock()
				t.Errorf("CHECK: %v", err)
			}
		})
	}
	wg.Wait()
	if n := strings.Count(w.log.String(), "is rebuilt"); n != 1 {
		t.Errorf("rebuilt %d times", n)
	}
}

func lostSandbox(pod string, asks bool) sandbox {
	s := sandbox{id: "c-" + pod, pod: pod, uid: "uid-" + pod, ifName: "eth0"}
	if asks {
		s.annotations = map[string]string{reservation.RetainAnnotation: "10"}
	}
	return s
}

// next returns the sandbox of the next life of a pod.
func next(s sandbox) sandbox {
	s.id, s.uid = s.id+"-next", s.uid+"-next"
	return s
}

func (w *testNode) mustAdd(s sandbox) []netip.Addr {
	w.t.Helper()
	addrs, err := w.add(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return addrs
}

// cacheWhole writes the cache file that libcni writes after a chain has succeeded.
func (w *testNode) cacheWhole(s sandbox, addrs []netip.Addr) {
	w.t.Helper()
	var ips []map[string]string
	for _, a := range addrs {
		ips = append(ips, map[string]string{"address": netip.PrefixFrom(a, a.BitLen()).String()})
	}
	data, err := json.Marshal(map[string]any{
		"kind": "cniCacheV1", "containerId": s.id, "ifName": s.ifName, "networkName": network, "netns": s.netns(), "config": []byte("{}"),
		"cniArgs":        [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", s.namespace()}, {"K8S_POD_NAME", s.pod}, {"K8S_POD_UID", s.uid}},
		"capabilityArgs": map[string]any{"io.kubernetes.cri.pod-annotations": s.annotations},
		"result":         map[string]any{"cniVersion": "1.1.0", "ips": ips},
	})
	if err := errors.Join(err, os.WriteFile(w.cacheFile(s), data, 0o600)); err != nil {
		w.t.Fatal(err)
	}
}

// interfaces returns the interfaces in the namespaces of sandboxes, with addresses by pod.
func (w *testNode) interfaces(addrs map[string][]netip.Addr, of ...sandbox) func() []machine.Interface {
	return func() []machine.Interface {
		var all []machine.Interface
		for _, s := range of {
			if n, lives := w.netns[s.netns()]; lives {
				all = append(all, machine.Interface{NetNS: n, Name: s.ifName, Addresses: addrs[s.pod]})
			}
		}
		return all
	}
}

// damage changes each file of the state: while one fold and the journals are whole, nothing is lost.
func (w *testNode) damage(do func(path string) error) {
	w.t.Helper()
	for _, name := range []string{"limpet.db", "limpet.db.2", "limpet.journal", "limpet.journal.last"} {
		if err := do(filepath.Join(w.dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			w.t.Fatal(err)
		}
	}
}

// forbidRepair blocks the name of a new state file.
func (w *testNode) forbidRepair() {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Join(w.dir, "limpet.db.new", "obstacle"), 0o700); err != nil {
		w.t.Fatal(err)
	}
}

// overwrite replaces [from, to) by a byte, up to the end of the file.
func overwrite(from, to int, by byte) func(string) error {
	return func(path string) error {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i := from; i < min(to, len(data)); i++ {
			data[i] = by
		}
		return os.WriteFile(path, data, 0o600)
	}
}

func foreignDatabase(path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	return errors.Join(db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket([]byte("something"))
		return err
	}), db.Close())
}
