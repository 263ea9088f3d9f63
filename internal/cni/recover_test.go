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
	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// damage is a way to damage files of a state.
type damage struct {
	of       []part
	do       func(path string) error
	loses    loss
	noBackup bool // there is no file to keep
	unseen   bool // it looks like a new node, so that only an ADD makes a state
	spare    bool // the files serve recovery alone: verbs go on, and fold later without them
}

// part is a file of a state, by what it is for.
type part int

const (
	activeFold part = iota // on which the journal stands
	otherFold
	theJournal
	lastJournal
	theMarker
)

// loss is what a damage costs at most, beside what the node knows.
type loss int

const (
	nothing loss = iota
	whatFramesHave
	whatFoldsHave
	everything
)

var (
	allParts = []part{activeFold, otherFold, theJournal, lastJournal}
	folds    = []part{activeFold, otherFold}
)

// damages are ways to damage a state. While one fold is whole, and the journals since, nothing is lost.
var damages = makeDamages()

func makeDamages() map[string]damage {
	all := map[string]damage{
		"each file: removed": {of: allParts, do: os.Remove, loses: everything, noBackup: true},
		"each file: removed with the directory": {
			of: folds[:1], do: func(path string) error { return os.RemoveAll(filepath.Dir(path)) }, loses: everything, noBackup: true, unseen: true,
		},
		"each file: cut to two pages":   {of: allParts, do: func(path string) error { return os.Truncate(path, 8192) }, loses: whatFoldsHave},
		"the fold: first page zeroed":   {of: folds[:1], do: overwrite(0, 4096, 0)},
		"the fold: second page zeroed":  {of: folds[:1], do: overwrite(4096, 8192, 0)},
		"the fold: two pages zeroed":    {of: folds[:1], do: overwrite(0, 8192, 0)},
		"the fold: all data zeroed":     {of: folds[:1], do: overwrite(8192, 1<<20, 0)},
		"both folds: all data zeroed":   {of: folds, do: overwrite(8192, 1<<20, 0), loses: whatFoldsHave},
		"the journal: header zeroed":    {of: allParts[2:3], do: overwrite(0, 4096, 0)},
		"both journals: headers zeroed": {of: allParts[2:], do: overwrite(0, 4096, 0)},
		"the journal: frames zeroed":    {of: allParts[2:3], do: overwrite(4096, 1<<20, 0), loses: whatFramesHave},
	}
	for what, do := range map[string]func(path string) error{
		"removed":                    os.Remove,
		"empty":                      func(path string) error { return os.Truncate(path, 0) },
		"cut within a page":          func(path string) error { return os.Truncate(path, 100) },
		"zeroed":                     overwrite(0, 1<<20, 0),
		"overwritten by garbage":     overwrite(0, 1<<20, 0xa5),
		"of a few bytes":             func(path string) error { return os.WriteFile(path, []byte("limpet"), 0o600) },
		"another program's database": foreignDatabase,
	} {
		for which, d := range map[string]damage{
			"each file":               {of: allParts, loses: everything},
			"the fold":                {of: allParts[:1]},
			"the other fold":          {of: allParts[1:2], spare: true},
			"both folds":              {of: folds, loses: whatFoldsHave},
			"the journal":             {of: allParts[2:3], loses: whatFramesHave},
			"the last journal":        {of: allParts[3:], spare: true},
			"both journals":           {of: allParts[2:], loses: whatFramesHave},
			"other fold and journals": {of: allParts[1:], loses: whatFramesHave},
		} {
			name := which + ": " + what
			if _, known := all[name]; !known {
				d.do = do
				all[name] = d
			}
		}
	}
	return all
}

// TestStateIsRebuilt is rule 6: however the files are damaged, no address of a running pod is handed out, its DEL works, and
// readable records stay.
func TestStateIsRebuilt(t *testing.T) {
	for name, d := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
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

			w.harm(d)
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
			want := 1
			if d.spare || d.unseen {
				want = 0
			}
			if n := strings.Count(w.log.String(), "State was lost or damaged and is rebuilt"); n != want {
				t.Errorf("said %d times that the state was rebuilt, want %d:\n%s", n, want, w.log.String())
			}
			backups, _ := filepath.Glob(filepath.Join(w.dir, "limpet.*.damaged-*"))
			if (len(backups) == 0) != (d.noBackup || d.spare) {
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

// TestReservationsOutliveDamage asserts which damage may cost a reservation: one that stands in the journal alone, and one that
// stands in both folds. Whatever is lost is told.
func TestReservationsOutliveDamage(t *testing.T) {
	for name, d := range damages {
		for place, lost := range map[string]bool{
			"in the journal": d.loses == whatFramesHave || d.loses == everything,
			"in both folds":  d.loses == whatFoldsHave || d.loses == everything,
		} {
			t.Run(name+", reserved "+place, func(t *testing.T) {
				t.Parallel()
				w := newTestNode(t)
				kept := lostSandbox("kept", true)
				w.start(kept)
				was := w.mustAdd(kept)
				if err := w.del(kept); err != nil {
					t.Fatal(err)
				}
				delete(w.netns, kept.netns())
				if place == "in both folds" {
					w.foldTwice()
				}
				for _, other := range []string{"a", "b"} { // later commits than the one that reserved
					w.mustAdd(lostSandbox(other, false))
				}
				w.harm(d)
				w.mustAdd(lostSandbox("c", false))
				w.foldTwice() // without what is damaged
				again := w.mustAdd(next(kept))
				gone := !slices.Equal(again, was)
				if gone && !lost { // what may be lost is found where an earlier use of a journal has left it
					t.Errorf("had %v, got %v", was, again)
				}
				if told := strings.Contains(w.log.String(), "reservations that could not be read"); (gone || lost) && !told && !d.unseen {
					t.Errorf("lost without a word:\n%s", w.log.String())
				}
			})
		}
	}
}

// foldTwice writes what the journal has into both folds.
func (w *testNode) foldTwice() {
	w.t.Helper()
	w.compact()
	w.compact()
}

// compact writes what the journal has into the other fold.
func (w *testNode) compact() {
	w.t.Helper()
	if _, _, err := persistence.New(persistence.Options{Dir: w.dir}).Compact(w.t.Context()); err != nil {
		w.t.Fatal(err)
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
	if err := errors.Join(os.RemoveAll(filepath.Join(w.dir, newFolds[0])), os.RemoveAll(filepath.Join(w.dir, newFolds[1]))); err != nil {
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
	for name, newer := range map[string]func(w *testNode){
		"a journal of another version": func(w *testNode) {
			w.rewrite("limpet.journal", func(data []byte) { copy(data, "limpet journal 2\n"); sealHeader(data) })
		},
		"a fold of a later schema": func(w *testNode) {
			w.foldTwice()
			w.laterSchema(w.path(activeFold))
			fold := w.content(w.path(activeFold))
			w.rewrite("limpet.journal", func(data []byte) {
				size := binary.LittleEndian.Uint64(data[foldSizeAt:])
				binary.LittleEndian.PutUint32(data[sumsAt:], crc32.ChecksumIEEE(fold[:size]))
				sealHeader(data)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			s := lostSandbox("web", true)
			w.start(s)
			addrs := w.mustAdd(s)
			was := w.files()
			newer(w)
			now := w.files()
			for _, which := range []sandbox{s, lostSandbox("unknown", true)} {
				if err := w.plugin.Funcs().Del(w.args(which, nil)); err != nil {
					t.Errorf("DEL of %s: %v", which.id, err)
				}
			}
			if _, err := w.add(lostSandbox("other", false)); codeOf(err) != types.ErrIOFailure || !strings.Contains(err.Error(), "install the newer limpet-ipam again") {
				t.Errorf("ADD: %v, want code 5 with the remedy", err)
			}
			if diff := cmp.Diff(now, w.files()); diff != "" {
				t.Errorf("files of the newer version were changed")
			}
			w.putBack(was) // as the newer version reads it
			delete(w.netns, s.netns())
			if got := w.mustAdd(next(s)); !slices.Equal(got, addrs) {
				t.Errorf("the next life has %v, want %v", got, addrs)
			}
		})
	}
}

// Places in the header of a journal on a fold of less than 1 MiB.
const (
	foldAt     = len("limpet journal 1\n")
	foldSizeAt = foldAt + 1 + 8
	sumsAt     = foldSizeAt + 8 + 8 + 4
	headerSize = sumsAt + 4 + 4
	framesAt   = 4096
)

// sealHeader writes the checksum of the header of a journal.
func sealHeader(data []byte) {
	end := headerSize - 4
	binary.LittleEndian.PutUint32(data[end:], crc32.ChecksumIEEE(data[:end]))
}

// laterSchema makes a fold one of a version that does not exist yet.
func (w *testNode) laterSchema(path string) {
	w.t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	later := []byte{0, 0, 0, 9}
	err = db.Update(func(tx *bolt.Tx) error {
		sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(append([]byte("schema"), later...)))
		meta := tx.Bucket([]byte("meta"))
		return errors.Join(meta.Put([]byte("schema"), later), meta.Put([]byte("schemasum"), sum))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		w.t.Fatal(err)
	}
}

// rewrite changes the content of a file of the state.
func (w *testNode) rewrite(name string, change func(data []byte)) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	data := w.content(path)
	change(data)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *testNode) content(path string) []byte {
	w.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	return data
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
func (w *testNode) interfaces(addrs map[string][]netip.Addr, of ...sandbox) func() ([]machine.Interface, error) {
	return func() (all []machine.Interface, err error) {
		for _, s := range of {
			if n, lives := w.netns[s.netns()]; lives {
				all = append(all, machine.Interface{NetNS: n, Name: s.ifName, Addresses: addrs[s.pod]})
			}
		}
		return all, nil
	}
}

// damage changes each file of the state.
func (w *testNode) damage(do func(path string) error) {
	w.t.Helper()
	w.harm(damage{of: allParts, do: do})
}

// harm changes files of the state. A state that has not been folded has no last journal.
func (w *testNode) harm(d damage) {
	w.t.Helper()
	var paths []string // before the journal is changed
	for _, p := range d.of {
		paths = append(paths, w.path(p))
	}
	for _, path := range paths {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := d.do(path); err != nil {
			w.t.Fatal(err)
		}
	}
}

// path returns the path of a file of the state.
func (w *testNode) path(p part) string {
	w.t.Helper()
	names := [...]string{"limpet.db", "limpet.db.2", "limpet.journal", "limpet.journal.last", "limpet.marker"}
	if p == activeFold || p == otherFold {
		if journal, err := os.ReadFile(filepath.Join(w.dir, names[theJournal])); err == nil && len(journal) > foldAt {
			p ^= part(journal[foldAt])
		}
	}
	return filepath.Join(w.dir, names[p])
}

// files returns what is in the directory of the state.
func (w *testNode) files() map[string][]byte {
	w.t.Helper()
	entries, err := os.ReadDir(w.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, e := range entries {
		if !e.IsDir() && e.Name() != "limpet.lock" {
			all[e.Name()] = w.content(filepath.Join(w.dir, e.Name()))
		}
	}
	return all
}

// putBack makes files of an earlier time the whole directory.
func (w *testNode) putBack(all map[string][]byte) {
	w.t.Helper()
	err := errors.Join(os.RemoveAll(w.dir), os.Mkdir(w.dir, 0o700))
	for name, data := range all {
		err = errors.Join(err, os.WriteFile(filepath.Join(w.dir, name), data, 0o600))
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// newFolds are the names under which a recovery writes a fold.
var newFolds = [...]string{"limpet.db.new", "limpet.db.2.new"}

// forbidRepair blocks the name of a new state file.
func (w *testNode) forbidRepair() {
	w.t.Helper()
	for _, temp := range newFolds {
		if err := os.MkdirAll(filepath.Join(w.dir, temp, "obstacle"), 0o700); err != nil {
			w.t.Fatal(err)
		}
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
