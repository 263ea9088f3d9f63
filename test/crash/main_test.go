// Package crash_test kills limpet-ipam at any instant and simulates a power loss at any instant, and checks the state
// that is left (rule 5).
package crash_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
	"github.com/limpet-io/limpet/test/cniexec"
)

// network is a name that no other network on this machine has: the plugin reads the machine's result cache.
const network = "limpet-crash-test"

var plugin string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "limpet-crash-test-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	built, err := cniexec.BuildLimpet(context.Background(), "../..", dir)
	plugin = built.Limpet
	if err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// times returns n, and few at most with -short: what is left to make test-all is more of the same at random.
func times(n, few int) int {
	if testing.Short() {
		return min(n, few)
	}
	return n
}

// somewhere returns where to begin with the steps of a verb, and how many to go on: through all of them, and with -short
// through every third.
func somewhere() (first, step int) {
	if testing.Short() {
		return rand.N(3), 3
	}
	return 0, 1
}

// life is one incarnation of a pod.
type life struct {
	pod, n int
}

func (l life) container() string { return fmt.Sprintf("c%d-%d", l.pod, l.n) }

func (l life) owner() reservation.Owner {
	return reservation.Owner{Network: network, Namespace: "ns", Pod: fmt.Sprintf("web-%d", l.pod), IfName: "eth0"}
}

func (l life) id() reservation.AttachmentID {
	return reservation.AttachmentID{Network: network, ContainerID: l.container(), IfName: "eth0"}
}

// requires is the first pod that asks for its address: its ADD promises it.
const requires = 100

// call returns a verb for one life of a pod. A DEL with the addresses of the ADD is not taken for a rollback.
func call(dir, verb string, l life, had []netip.Addr) cniexec.Call {
	annotations := map[string]string{reservation.RetainAnnotation: "10"}
	if l.pod >= requires {
		annotations[reservation.ModeAnnotation] = reservation.Required.String()
	}
	conf := map[string]any{
		"cniVersion": "1.1.0", "name": network, "type": "test",
		"ipam":          map[string]any{"type": "limpet-ipam", "dataDir": dir, "ranges": json.RawMessage(`[[{"subnet":"10.1.0.0/23"}],[{"subnet":"fd00:1::/64"}]]`)},
		"runtimeConfig": map[string]any{"io.kubernetes.cri.pod-annotations": annotations},
	}
	if had != nil {
		var ips []map[string]string
		for _, a := range had {
			ips = append(ips, map[string]string{"address": netip.PrefixFrom(a, a.BitLen()).String()})
		}
		conf["prevResult"] = map[string]any{"cniVersion": "1.1.0", "ips": ips}
	}
	stdin, err := json.Marshal(conf)
	if err != nil {
		panic(err)
	}
	return cniexec.Call{
		Plugin: plugin, Verb: verb, Container: l.container(), IfName: "eth0", NetNS: "/nowhere/" + l.container(), Path: "/nowhere", Stdin: stdin,
		Args: fmt.Sprintf("IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=web-%d;K8S_POD_UID=%s", l.pod, l.container()),
	}
}

// state is what the files of a state say.
type state struct {
	attached map[reservation.AttachmentID][]netip.Addr
	reserved map[reservation.Owner][]netip.Addr
}

// read returns the state. It fails when a rule is broken or the fold is not sound. A missing state is empty.
func read(ctx context.Context, dir string, rebuild func(persistence.Salvaged) (reservation.Records, error)) (state, error) {
	return readWith(ctx, persistence.Options{Dir: dir, Rebuild: rebuild})
}

func readWith(ctx context.Context, o persistence.Options) (state, error) {
	s := state{map[reservation.AttachmentID][]netip.Addr{}, map[reservation.Owner][]netip.Addr{}}
	held := map[netip.Addr]bool{}
	err := persistence.New(o).View(ctx, func(tx *persistence.Tx) error {
		as, err := tx.Attachments(network)
		rs, err2 := tx.Reservations(network)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		for _, a := range as {
			if a.ID.IsNetNSPlaceholder() {
				continue // an address in a namespace of this machine
			}
			s.attached[a.ID] = a.Addresses
			if err := take(held, a.Addresses); err != nil {
				return err
			}
		}
		for _, r := range rs {
			s.reserved[r.Owner] = r.Addresses
			if err := take(held, r.Addresses); err != nil {
				return err
			}
		}
		for a := netip.MustParseAddr("10.1.0.0"); a.As4()[2] < 2; a = a.Next() {
			if is, err := tx.Held(network, a); err != nil || is != held[a] {
				return fmt.Errorf("the index says that %s is held: %t, %w; the records say %t", a, is, err, held[a])
			}
		}
		return nil
	})
	if errors.Is(err, persistence.ErrNoState) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	return s, sound(activeFold(o.Dir))
}

// activeFold returns the path of the fold on which the journal stands, whose number follows the first line of the header;
// that of the first one where there is no journal.
func activeFold(dir string) string {
	const magic = "limpet journal 1\n"
	if data, err := os.ReadFile(filepath.Join(dir, "limpet.journal")); err == nil && len(data) > len(magic) && data[len(magic)] == 1 {
		return filepath.Join(dir, "limpet.db.2")
	}
	return filepath.Join(dir, "limpet.db")
}

// fillJournal makes the journal so long that the next verb that writes folds.
func fillJournal(t *testing.T, dir string) {
	t.Helper()
	const longest, less = 4096 + 64<<10, 150 // a header and the frames; what the frame of any verb exceeds
	end, generation := journalEnd(t, dir)
	config := fmt.Appendf(nil, "[%d]", generation) // differs from that of the last time
	room := longest - less - end - len(config)
	if room < 0 {
		return
	}
	fold := activeFold(dir)
	err := persistence.New(persistence.Options{Dir: dir}).Update(t.Context(), func(tx *persistence.Tx) error {
		return tx.SetConfig("filler", append(config, bytes.Repeat([]byte(" "), room)...))
	})
	if err != nil || activeFold(dir) != fold {
		t.Fatalf("fill the journal: %v; it stood on %s, and stands on %s", err, fold, activeFold(dir))
	}
}

// journalEnd returns where the last frame of the journal ends, and its generation.
func journalEnd(t *testing.T, dir string) (at int, generation uint64) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "limpet.journal"))
	if err != nil {
		t.Fatal(err)
	}
	number := binary.LittleEndian
	at, generation = 4096, number.Uint64(data[18:]) // of the fold
	for at+20 <= len(data) && number.Uint32(data[at:]) > 0 && number.Uint64(data[at+12:]) == generation+1 {
		at, generation = at+20+int(number.Uint32(data[at:])), generation+1
	}
	return at, generation
}

func take(held map[netip.Addr]bool, addrs []netip.Addr) error {
	if len(addrs) != 2 {
		return fmt.Errorf("%v is half of what a pod has", addrs)
	}
	for _, a := range addrs {
		if held[a] {
			return fmt.Errorf("%s has two holders", a)
		}
		held[a] = true
	}
	return nil
}

// sound fails when bbolt finds a fault in a file.
func sound(path string) error {
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		return err
	}
	return errors.Join(db.View(func(tx *bolt.Tx) error {
		var all []error
		for err := range tx.Check() {
			all = append(all, err)
		}
		return errors.Join(all...)
	}), db.Close())
}

// String lists the holders and their addresses.
func (s state) String() string {
	var lines []string
	for id, addrs := range s.attached {
		lines = append(lines, fmt.Sprint(id, " has ", addrs))
	}
	for o, addrs := range s.reserved {
		lines = append(lines, fmt.Sprint(o, " keeps ", addrs))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func addresses(stdout []byte) []netip.Addr {
	var r struct {
		IPs []struct {
			Address netip.Prefix `json:"address"`
		} `json:"ips"`
	}
	_ = json.NewDecoder(bytes.NewReader(stdout)).Decode(&r) // a DEL has no answer
	var addrs []netip.Addr
	for _, ip := range r.IPs {
		addrs = append(addrs, ip.Address.Addr())
	}
	return addrs
}
