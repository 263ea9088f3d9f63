package ipamtool_test

import (
	"bytes"
	be "encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/audit"
	"github.com/limpet-io/limpet/internal/cni/coexist"
	cninode "github.com/limpet-io/limpet/internal/cni/node"
	"github.com/limpet-io/limpet/internal/cni/recovery"
	"github.com/limpet-io/limpet/internal/ipamtool"
	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/persistence/flock"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func TestCheck(t *testing.T) {
	n := newNode(t)
	n.fill()
	n.golden("check.txt", "check", "check -o json", "check web-0")
}

// TestCheckOfASoundNodeHasAList runs the example of the command's help on a sound node: jq fails on null.
func TestCheckOfASoundNodeHasAList(t *testing.T) {
	n := newNode(t)
	n.on("list") // nothing is attached or reserved
	n.file(persistence.New(persistence.Options{Dir: n.dir}).Update(t.Context(), func(*persistence.Tx) error { return nil }))
	out, exit := n.on("check", "-o", "json")
	var v struct {
		Findings json.RawMessage `json:"findings"`
	}
	if err := json.Unmarshal([]byte(out), &v); exit != ipamtool.ExitDone || err != nil || string(v.Findings) != "[]" {
		t.Errorf("exit %d, %v:\n%s", exit, err, out)
	}
}

// newerSum is the checksum of schema 9.
const newerSum = "\x28\x7e\xc9\x1d"

const dmzBitmap = "dmz\x00\xc0\xa8\x00\x00" // its key

// TestCheckFindsFaults damages a state in each way that check knows, and repairs the state.
func TestCheckFindsFaults(t *testing.T) {
	edit := func(bucket, key, value string) func(node) {
		return func(n node) {
			n.edit(func(tx *bolt.Tx) error { return tx.Bucket([]byte(bucket)).Put([]byte(key), []byte(value)) })
		}
	}
	for name, tc := range map[string]struct {
		harm func(node)
		want string // a line of the table, its blanks squeezed
		// lasts is true when a repair does not help.
		lasts bool
	}{
		"a record that cannot be decoded": {
			harm: edit("reservations", "limpet\x00default\x00db-0\x00eth0", "{"),
			want: "violation record reservations limpet default db-0 eth0 decode reservation: record without a checksum: state file is damaged",
		},
		"an address that two hold": {
			harm: func(n node) {
				n.edit(func(tx *bolt.Tx) error {
					b := tx.Bucket([]byte("attachments"))
					record := b.Get([]byte("limpet\x00" + container("aa22") + "\x00eth0"))
					body := bytes.ReplaceAll(record[:bytes.LastIndex(record, []byte(`,"sum"`))], []byte(container("aa22")), []byte("dd99"))
					return b.Put([]byte("limpet\x00dd99\x00eth0"), fmt.Appendf(body, `,"sum":"%08x"}`, crc32.ChecksumIEEE(body)))
				})
			},
			want: "violation holders limpet 10.244.0.3 is held by pod default/web-1 (container " + container("aa22") + ") and by pod default/web-1 (container dd99)",
		},
		"an index that forgot": {
			harm: edit("held", dmzBitmap, string(be.BigEndian.AppendUint32(make([]byte, 32), crc32.ChecksumIEEE(append([]byte(dmzBitmap), make([]byte, 32)...))))),
			want: "violation index dmz 192.168.0.9 is held, but marked as free: it can be handed out twice",
		},
		"half a file": {
			harm: func(n node) { n.file(os.Truncate(n.fold(), 8192)) },
			want: "violation file DIR/state open DIR/state/limpet.db: -rw------- of 8192 bytes, and the journal says 24576: state file is damaged",
		},
		"a lost file": {
			harm: func(n node) { n.file(os.Remove(n.fold())) },
			want: "violation file DIR/state open DIR/state/limpet.db: DIR/state/limpet.db is missing: state file is lost",
		},
		"a flipped bit in the fold": {
			harm: func(n node) { n.flip(n.fold(), 9000) },
			want: "violation file DIR/state open DIR/state/limpet.db: segment 0 of DIR/state/limpet.db: checksum differs: state file is damaged",
		},
		"a flipped bit in the header of the journal": {
			harm: func(n node) { n.flip(n.journal(), 30) },
			want: "violation file DIR/state read DIR/state/limpet.journal: checksum of the journal's header: state file is damaged",
		},
		"a flipped bit in a commit": {
			harm: func(n node) { n.flip(n.journal(), 5000) },
			want: "violation file DIR/state read DIR/state/limpet.journal: generation N, and the marker says N: state file is an earlier one",
		},
		"a lost journal": {
			harm: func(n node) { n.file(os.Remove(n.journal())) },
			want: "violation file DIR/state DIR/state/limpet.journal is missing although other files say that the state was created: state file is lost",
		},
		"all is lost but the marker": {
			harm: func(n node) {
				for _, name := range []string{"limpet.db", "limpet.db.2", "limpet.journal"} {
					n.file(os.Remove(filepath.Join(n.dir, name)))
				}
			},
			want: "violation file DIR/state DIR/state/limpet.journal is missing although other files say that the state was created: state file is lost",
		},
		"a flipped bit in the schema": {
			harm: edit("meta", "schema", "\x00\x00\x01\x01"),
			want: "violation file DIR/state schema 257 with the checksum c8ab2003, want 3fbe706e: state file is damaged",
		},
		"a newer schema": {
			harm: func(n node) {
				n.edit(func(tx *bolt.Tx) error {
					meta := tx.Bucket([]byte("meta"))
					return errors.Join(meta.Put([]byte("schema"), []byte("\x00\x00\x00\x09")), meta.Put([]byte("schemasum"), []byte(newerSum)))
				})
			},
			want:  "violation file DIR/state schema 9, this version reads up to 3: install the newer limpet-ipam again: state file was written by a newer version",
			lasts: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.fill()
			tc.harm(n)
			out, exit := n.alone("check")
			if exit != ipamtool.ExitNo || !strings.Contains(generations.ReplaceAllString(squeezed(n.steady(out)), " N"), "\n"+tc.want+"\n") {
				t.Errorf("exit %d, want the line\n%s\nof\n%s", exit, tc.want, n.steady(out))
			}
			if out, exit := n.alone("check", "--repair"); (exit == ipamtool.ExitDone) == tc.lasts {
				t.Errorf("exit %d with --repair:\n%s", exit, out)
			}
			if out, exit := n.alone("check"); (exit == ipamtool.ExitDone) == tc.lasts {
				t.Errorf("exit %d after a repair:\n%s", exit, out)
			}
		})
	}
}

// generations are numbers that differ from run to run.
var generations = regexp.MustCompile(` \d{15,}`)

// alone runs a command as if no other containers ran on this machine.
func (n node) alone(args ...string) (out string, exit int) {
	n.Helper()
	return n.inside(nil, append(args, "--data-dir", n.dir)...)
}

// inside runs a command on a node whose namespaces have the given interfaces and whose result cache is in
// DIR/results.
func (n node) inside(interfaces []machine.Interface, args ...string) (out string, exit int) {
	n.Helper()
	var both bytes.Buffer
	host := cninode.Node{
		Now: func() reservation.Moment { return n.now }, NetNS: machine.StatNetNS, ResultsDir: filepath.Join(filepath.Dir(n.dir), "results"),
	}
	rebuilder := &recovery.Recovery{
		Node: host, Others: &coexist.Neighbour{Node: host}, Log: slog.New(slog.NewTextHandler(&both, nil)),
		Interfaces: func() ([]machine.Interface, error) { return interfaces, nil },
	}
	tool := ipamtool.Tool{
		Now: host.Now, NetNS: host.NetNS, Running: rebuilder.Running, Rebuild: rebuilder.RebuildIn, Stdout: &both, Stderr: &both,
	}
	exit = tool.Run(n.Context(), args)
	return both.String(), exit
}

// TestRepairRefusesToForget has a namespace with an address of an unknown network: repair refuses.
func TestRepairRefusesToForget(t *testing.T) {
	n := newNode(t)
	n.fill()
	for _, path := range []string{n.db(), n.db() + ".2", n.journal()} {
		n.file(os.Truncate(path, 100))
	}
	before := n.content()
	runs := []machine.Interface{{NetNS: n.netns("cni-aa11"), Name: "eth0", Addresses: []netip.Addr{netip.MustParseAddr("10.244.0.12")}}}
	out, exit := n.inside(runs, "check", "--repair", "--data-dir", n.dir)
	if exit != ipamtool.ExitFailed || !strings.Contains(out, "the next pod that starts here makes the state again") {
		t.Errorf("exit %d: %s", exit, out)
	}
	if diff := cmp.Diff(before, n.content()); diff != "" {
		t.Error("files were touched")
	}
}

// TestRepairAcceptsAnyPath repairs a state by paths that differ from the path in the network configuration.
func TestRepairAcceptsAnyPath(t *testing.T) {
	for name, path := range map[string]string{"relative": "state", "through a link": "link", "in a directory with dots": "../DIR/./state"} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.fill()
			above := filepath.Dir(n.dir)
			t.Chdir(above)
			ns := n.netns("cni-aa11")
			cached, err := json.Marshal(map[string]any{
				"kind": "cniCacheV1", "containerId": container("aa11"), "ifName": "eth0", "networkName": "limpet", "netns": ns.Path,
				"config": []byte(`{"ipam":{"type":"limpet-ipam","dataDir":"` + n.dir + `"}}`),
				"result": map[string]any{"cniVersion": "1.1.0", "ips": []map[string]string{{"address": "10.244.0.12/24"}}},
			})
			n.file(errors.Join(err, os.Mkdir("results", 0o700), os.Symlink("state", "link")))
			n.file(os.WriteFile(filepath.Join("results", "limpet-"+container("aa11")+"-eth0"), cached, 0o600))
			n.file(errors.Join(overwriteByZeros(n.db()), overwriteByZeros(n.db()+".2"), overwriteByZeros(n.journal())))
			runs := []machine.Interface{{NetNS: ns, Name: "eth0", Addresses: []netip.Addr{netip.MustParseAddr("10.244.0.12")}}}
			out, exit := n.inside(runs, "check", "--repair", "--data-dir", strings.ReplaceAll(path, "DIR", filepath.Base(above)))
			if exit != ipamtool.ExitDone {
				t.Errorf("exit %d: %s", exit, out)
			}
			if list, _ := n.on("list"); !strings.Contains(list, "10.244.0.12") {
				t.Errorf("the address is forgotten:\n%s\n%s", out, list)
			}
		})
	}
}

func overwriteByZeros(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return errors.Join(os.Truncate(path, 0), os.Truncate(path, info.Size()))
}

func TestCheckNotesAMissingMarker(t *testing.T) {
	n := newNode(t)
	n.fill()
	n.file(os.Remove(filepath.Join(n.dir, "limpet.marker")))
	out, exit := n.on("check")
	if exit != ipamtool.ExitDone || !strings.Contains(squeezed(out), "\nnote marker ") {
		t.Errorf("exit %d:\n%s", exit, out)
	}
}

// TestCheckComparesWithContainers compares the state with the containers that run.
func TestCheckComparesWithContainers(t *testing.T) {
	n := newNode(t)
	n.fill()
	runs := func(pod, begin, netns, ip string) reservation.Attachment {
		a := n.attachment(pod, begin, ip)
		a.NetNS.Path = netns
		return a
	}
	for name, tc := range map[string]struct {
		first, second []reservation.Attachment
		want          []string
	}{
		"its own address is as it must be": {first: []reservation.Attachment{runs("web-0", "aa11", "", "fd00::c")}},
		"known by its namespace alone": {
			first: []reservation.Attachment{runs("other", "ff00", filepath.Join(filepath.Dir(n.dir), "cni-aa11"), "fd00::c")},
		},
		"free in the state": {
			first: []reservation.Attachment{runs("web-7", "ff77", "", "10.244.0.77")},
			want:  []string{"limpet 10.244.0.77 is in use by pod default/web-7 (container " + container("ff77") + "), and free in the state"},
		},
		"attached to another container": {
			first: []reservation.Attachment{runs("web-7", "ff77", "", "10.244.0.3")},
			want:  []string{"limpet 10.244.0.3 is in use by pod default/web-7 (container " + container("ff77") + "), and in the state attached to pod default/web-1 (container aa22000000000)"},
		},
		"reserved": {
			first: []reservation.Attachment{runs("db-0", "ff77", "", "10.244.0.5")},
			want:  []string{"limpet 10.244.0.5 is in use by pod default/db-0 (container " + container("ff77") + "), and in the state reserved for default/db-0"},
		},
		"over at the second look": {first: []reservation.Attachment{runs("web-7", "ff77", "", "10.244.0.77")}, second: []reservation.Attachment{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // check waits before the second look
			if tc.second == nil {
				tc.second = tc.first
			}
			looks := [][]reservation.Attachment{tc.first, tc.second}
			var out bytes.Buffer
			tool := ipamtool.Tool{
				Now: func() reservation.Moment { return n.now }, NetNS: machine.StatNetNS, Stdout: &out, Stderr: &out,
				Running: func(string) ([]reservation.Attachment, error) {
					seen := looks[0]
					looks = looks[1:]
					return seen, nil
				},
			}
			exit := tool.Run(t.Context(), []string{"check", "-o", "json", "--data-dir", n.dir})
			if (exit == ipamtool.ExitNo) != (len(tc.want) > 0) {
				t.Errorf("exit %d", exit)
			}
			var v ipamtool.Verdict
			if err := json.NewDecoder(&out).Decode(&v); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range v.Findings {
				if f.Kind == audit.KindRunning {
					got = append(got, f.Subject+" "+f.Problem)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || v.Violations != len(tc.want) {
				t.Errorf("%d violations (-want +got):\n%s", v.Violations, diff)
			}
		})
	}
}

// TestNoCommandWaitsForEver holds the lock: each command gives up after --lock-wait.
func TestNoCommandWaitsForEver(t *testing.T) {
	n := newNode(t)
	n.fill()
	lock, err := flock.Lock(t.Context(), filepath.Join(n.dir, "limpet.lock"), unix.LOCK_EX, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	for _, call := range []string{"list", "show 10.244.0.5", "check", "release 10.244.0.5", "compact"} {
		out, exit := n.on(append(strings.Fields(call), "--lock-wait", "20ms")...)
		if exit != ipamtool.ExitFailed || !strings.Contains(out, "locked by others") {
			t.Errorf("%s ends with %d: %s", call, exit, out)
		}
	}
}
