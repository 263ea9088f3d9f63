package ipamtool_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var largeState = flag.Int("addresses", 1_000_000, "addresses in the state of BenchmarkLargeState")

// peakArgument makes the test binary run a command and print the peak memory of the command. A child process has the
// memory of its parent until its exec, so the parent must be small.
const peakArgument = "peak-of"

// printPeak runs a command, throws its output away, and prints the peak of its resident memory in KiB.
func printPeak(command []string) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return errors.New("no resource usage on this system")
	}
	_, err := fmt.Println(usage.Maxrss)
	return err
}

// peak returns the peak of the resident memory of limpet-ipam in bytes.
func peak(ctx context.Context, args ...string) (int64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{peakArgument, binary}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, stderr.Bytes())
	}
	kib, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	return kib << 10, err
}

// large makes a state with so many addresses. Every second one is reserved, the others are attached.
func large(t testing.TB, addresses int) (dir string) {
	t.Helper()
	clocks, err := machine.ReadClocks(machine.BootIDPath, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	dir, now := filepath.Join(t.TempDir(), "state"), clocks()
	store := persistence.New(persistence.Options{Dir: dir})
	const inOne = 20_000
	addr := netip.MustParseAddr("10.0.0.2")
	for first := 0; first < addresses; first += inOne {
		err := store.Update(t.Context(), func(tx *persistence.Tx) error {
			for i := first; i < min(first+inOne, addresses); i++ {
				if err := putOne(tx, i, addr, now); err != nil {
					return err
				}
				addr = addr.Next()
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// putOne stores the holder of an address.
func putOne(tx *persistence.Tx, i int, addr netip.Addr, now reservation.Moment) error {
	seq, err := tx.NextSeq()
	if err != nil {
		return err
	}
	owner := reservation.Owner{Network: "limpet", Namespace: fmt.Sprintf("team-%d", i%100), Pod: fmt.Sprintf("web-%d", i), IfName: "eth0"}
	id, uid := fmt.Sprintf("%08x%056x", uint32(i)*2654435761, i), fmt.Sprintf("0b1e7a3c-0000-4000-8000-%012x", i)
	if i%2 == 0 {
		return tx.PutReservation(reservation.Reservation{
			Owner: owner, UID: uid, ContainerID: id, Addresses: []netip.Addr{addr}, Seq: seq, Retain: time.Hour,
			Deadline: reservation.Deadline{From: now, For: time.Hour},
		})
	}
	return tx.PutAttachment(reservation.Attachment{
		ID:    reservation.AttachmentID{Network: "limpet", ContainerID: id, IfName: "eth0"},
		Owner: owner, UID: uid, Addresses: []netip.Addr{addr}, Seq: seq, Retain: time.Hour, AnnotationsSeen: true, Since: now,
		NetNS: reservation.NetNS{Path: "/var/run/netns/cni-" + uid},
	})
}

// readers are the commands that read the whole state.
var readers = []string{"list", "list -o json", "check", "check -o json", "show team-1/web-1", "release team-2/web-2 --dry-run"}

// TestLargeStatesTakeLittleMemory reads a state of 10 000 addresses and one of 100 000, whose file has 1 400 bytes for
// each. No command holds all records at once, and none keeps the pages of the file that it has read. BenchmarkLargeState
// measures 1 000 000 addresses.
func TestLargeStatesTakeLittleMemory(t *testing.T) {
	const (
		small, big = 10_000, 100_000
		most       = 250        // bytes for each address more, of which all in memory take a thousand; on a busy machine the garbage collector is late
		mostBig    = 32_000_000 // of a file below 16 MB the pages stay, so that the small state takes as much as the big one
	)
	dirs := []string{large(t, small), large(t, big)}
	for _, command := range readers {
		args := func(dir string) []string { return append(strings.Fields(command), "--data-dir", dir) }
		ofSmall := leastPeak(t, args(dirs[0]), 0)
		enough := min(mostBig, ofSmall+most*(big-small))
		ofBig := leastPeak(t, args(dirs[1]), enough)
		t.Logf("%s: %d kB with %d addresses, %d kB with %d", command, ofSmall/1000, small, ofBig/1000, big)
		if ofBig > enough {
			t.Errorf("%s: %d bytes for each address more, at most %d are allowed; %d bytes in all, at most %d",
				command, (ofBig-ofSmall)/(big-small), most, ofBig, mostBig)
		}
	}
}

// leastPeak returns the least peak of a command that runs ten times, or until its peak is small enough: a large state
// is slow to read. On a busy machine the process gives memory back late.
func leastPeak(t *testing.T, args []string, enough int64) int64 {
	t.Helper()
	least := int64(math.MaxInt64)
	for i := 0; i < 10 && least > enough; i++ {
		p, err := peak(t.Context(), args...)
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		least = min(least, p)
	}
	return least
}

// BenchmarkLargeState measures the commands that read the whole state, with the number of addresses of -addresses.
func BenchmarkLargeState(b *testing.B) {
	dir := large(b, *largeState)
	for _, command := range slices.Concat(readers, []string{"compact"}) {
		b.Run(command, func(b *testing.B) {
			highest := int64(0)
			for b.Loop() {
				p, err := peak(b.Context(), append(strings.Fields(command), "--data-dir", dir)...)
				if err != nil {
					b.Fatal(err)
				}
				highest = max(highest, p)
			}
			b.ReportMetric(float64(highest)/1e6, "peak-MB")
		})
	}
}
