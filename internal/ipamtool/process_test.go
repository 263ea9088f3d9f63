package ipamtool_test

import (
	"bytes"
	le "encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var (
	binary string // limpet-ipam, as a release is built
	update = flag.Bool("update", false, "rewrite the golden files")
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == peakArgument {
		if err := printPeak(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	os.Exit(withBinary(m.Run))
}

func withBinary(run func() int) int {
	dir, err := os.MkdirTemp("", "ipamtool")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "limpet-ipam")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "../../cmd/ipam-plugin")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n%s", build, err, out)
		return 1
	}
	return run()
}

// node is a state directory, and runs limpet-ipam on the state.
type node struct {
	*testing.T
	dir   string
	store *persistence.Store
	now   reservation.Moment
}

func newNode(t *testing.T) node {
	t.Helper()
	clocks, err := machine.ReadClocks(machine.BootIDPath, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "state")
	return node{T: t, dir: dir, store: persistence.New(persistence.Options{Dir: dir}), now: clocks()}
}

// must runs one transaction.
func (n node) must(fn func(tx *persistence.Tx) error) {
	n.Helper()
	if err := n.store.Update(n.Context(), fn); err != nil {
		n.Fatal(err)
	}
}

func (n node) ago(d time.Duration) reservation.Moment {
	return reservation.Moment{Wall: n.now.Wall.Add(-d).UTC(), BootID: n.now.BootID, Up: n.now.Up - d}
}

// netns creates a file that stands for a network namespace: a file has an inode as well.
func (n node) netns(name string) reservation.NetNS {
	n.Helper()
	path := filepath.Join(filepath.Dir(n.dir), name)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		n.Fatal(err)
	}
	ns, _ := machine.StatNetNS(path)
	return ns
}

// container returns a container ID of 64 characters, as runtimes make them.
func container(begin string) string { return begin + strings.Repeat("0", 64-len(begin)) }

// attachment returns an attachment that began more than a day ago, so that the printed age stays the same during
// the test.
func (n node) attachment(pod, begin string, ips ...string) reservation.Attachment {
	n.Helper()
	a := reservation.Attachment{
		ID:     reservation.AttachmentID{Network: "limpet", ContainerID: container(begin), IfName: "eth0"},
		Owner:  reservation.Owner{Network: "limpet", Namespace: "default", Pod: pod, IfName: "eth0"},
		UID:    "uid-of-" + pod,
		Retain: 10 * time.Minute, AnnotationsSeen: true, NetNS: n.netns("cni-" + begin), Since: n.ago(26*time.Hour + 30*time.Minute),
	}
	for _, ip := range ips {
		a.Addresses = append(a.Addresses, netip.MustParseAddr(ip))
	}
	return a
}

// reservation returns a reservation with four days and four hours left.
func (n node) reservation(pod, begin string, ips ...string) reservation.Reservation {
	n.Helper()
	r := reservation.Reservation{
		Owner: reservation.Owner{Network: "limpet", Namespace: "default", Pod: pod, IfName: "eth0"}, UID: "uid-of-" + pod, ContainerID: container(begin),
		Deadline: reservation.Deadline{From: n.ago(30*time.Hour + 30*time.Minute), For: 131 * time.Hour}, Retain: 131 * time.Hour, Mode: reservation.Required,
	}
	for _, ip := range ips {
		r.Addresses = append(r.Addresses, netip.MustParseAddr(ip))
	}
	return r
}

// fill creates a state with a holder of every kind.
func (n node) fill() {
	n.Helper()
	refused := n.ago(time.Hour)
	ran := n.attachment("web-0", "aa11", "10.244.0.12", "fd00::c")
	waited := n.attachment("web-1", "aa22", "10.244.0.3")
	waited.RefusedSince, waited.AnnotationsSeen, waited.Retain = &refused, false, 0
	lost := n.attachment("web-2", "bb33", "10.244.0.4")
	if err := os.Remove(lost.NetNS.Path); err != nil {
		n.Fatal(err)
	}
	bare := n.attachment("", "cc44", "192.168.0.9")
	bare.ID.Network, bare.Owner, bare.UID, bare.NetNS = "dmz", reservation.Owner{Network: "dmz", IfName: "eth0"}, "", reservation.NetNS{}
	bare.Retain = 0
	lapsed := n.reservation("db-1", "ee66", "10.244.0.7")
	lapsed.Deadline.For = 10 * time.Minute
	n.must(func(tx *persistence.Tx) error {
		var errs []error
		for i, a := range []reservation.Attachment{ran, waited, lost, bare} {
			a.Seq = uint64(i + 1)
			errs = append(errs, tx.PutAttachment(a))
		}
		for i, r := range []reservation.Reservation{n.reservation("db-0", "dd55", "10.244.0.5", "fd00::5"), lapsed} {
			r.Seq = uint64(i + 5)
			errs = append(errs, tx.PutReservation(r))
		}
		for range 6 {
			_, err := tx.NextSeq()
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

// run executes limpet-ipam and returns the output.
func (n node) run(args ...string) (out string, exit int) {
	n.Helper()
	return n.withEnv([]string{}, "", args...)
}

func (n node) withEnv(env []string, stdin string, args ...string) (out string, exit int) {
	n.Helper()
	var both bytes.Buffer
	cmd := exec.CommandContext(n.Context(), binary, args...)
	cmd.Env, cmd.Stdin = env, strings.NewReader(stdin)
	cmd.Stdout, cmd.Stderr = &both, &both
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		n.Fatal(err)
	}
	return both.String(), cmd.ProcessState.ExitCode()
}

// on runs a command on the state of the node.
func (n node) on(args ...string) (out string, exit int) {
	n.Helper()
	return n.run(append(args, "--data-dir", n.dir)...)
}

func (n node) db() string { return filepath.Join(n.dir, "limpet.db") }

// file fails the test for an error of a file operation.
func (n node) file(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

func (n node) journal() string { return filepath.Join(n.dir, "limpet.journal") }

// Places in the header of a journal that stands on a fold of less than 1 MiB.
const (
	foldAt     = len("limpet journal 1\n")
	foldSizeAt = foldAt + 1 + 8
	sumsAt     = foldSizeAt + 8 + 8 + 4
)

// fold returns the path of the fold on which the journal stands.
func (n node) fold() string {
	n.Helper()
	data, err := os.ReadFile(n.journal())
	n.file(err)
	return filepath.Join(n.dir, []string{"limpet.db", "limpet.db.2"}[data[foldAt]])
}

// edit changes the state directly, with checksums as if the content had been written so.
func (n node) edit(fn func(*bolt.Tx) error) {
	n.Helper()
	_, _, err := n.store.Compact(n.Context())
	n.file(err)
	db, err := bolt.Open(n.fold(), 0o600, nil)
	n.file(err)
	n.file(db.Update(fn))
	size := 0
	n.file(errors.Join(db.View(func(tx *bolt.Tx) error { size = int(tx.Size()); return nil }), db.Close()))
	fold, err := os.ReadFile(n.fold())
	n.file(err)
	header, err := os.ReadFile(n.journal())
	n.file(err)
	const end = sumsAt + 4
	le.LittleEndian.PutUint64(header[foldSizeAt:], uint64(size))
	le.LittleEndian.PutUint32(header[sumsAt:], crc32.ChecksumIEEE(fold[:size]))
	le.LittleEndian.PutUint32(header[end:], crc32.ChecksumIEEE(header[:end]))
	n.file(os.WriteFile(n.journal(), header, 0o600))
}

// flip flips a bit of a file.
func (n node) flip(path string, at int) {
	n.Helper()
	data, err := os.ReadFile(path)
	n.file(err)
	data[at] ^= 4
	n.file(os.WriteFile(path, data, 0o600))
}

// content returns the files of the state; not the lock, which each command may make.
func (n node) content() map[string][]byte {
	n.Helper()
	all := map[string][]byte{}
	entries, err := os.ReadDir(n.dir)
	n.file(err)
	for _, e := range entries {
		if e.Name() != "limpet.lock" {
			all[e.Name()], err = os.ReadFile(filepath.Join(n.dir, e.Name()))
			n.file(err)
		}
	}
	return all
}

var blanks = regexp.MustCompile(` +`)

func squeezed(out string) string { return blanks.ReplaceAllString(out, " ") }

var (
	moments = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	counts  = regexp.MustCompile(`((?:age|left)Seconds": |bytes(?:Before|After)?": |from )\d+`) // the length of a frame follows the clocks, and which pages of a fold are free follows chance
)

// steady replaces the parts of an output that differ from run to run.
func (n node) steady(out string) string {
	out = strings.ReplaceAll(out, filepath.Dir(n.dir), "DIR")
	return counts.ReplaceAllString(moments.ReplaceAllString(out, "TIME"), "${1}N")
}

// golden compares the outputs of commands with a file in testdata.
func (n node) golden(file string, calls ...string) {
	n.Helper()
	var session strings.Builder
	for _, c := range calls {
		out, exit := n.on(strings.Fields(c)...)
		fmt.Fprintf(&session, "$ limpet-ipam %s\n%s→ %d\n\n", c, n.steady(out), exit)
	}
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(session.String()), 0o600); err != nil {
			n.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		n.Fatal(err)
	}
	if diff := cmp.Diff(string(want), session.String()); diff != "" {
		n.Errorf("%s (-want +got):\n%s", file, diff)
	}
}
