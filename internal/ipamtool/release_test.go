package ipamtool_test

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/hostlocal"
	"github.com/limpet-io/limpet/internal/ipamtool"
	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func TestRelease(t *testing.T) {
	n := newNode(t)
	n.fill()
	n.golden("release.txt",
		"release default/db-0 --dry-run", "release fd00::5", "release fd00::5", "release default/db-1", "release -o json default/web-2",
		"release 10.244.0.3", "release 192.168.0.9", "release default/web-0 --network dmz", "release", "list", "check")
}

// TestReleaseIsAllOrNothing names several holders by one query, of which one must not be released.
func TestReleaseIsAllOrNothing(t *testing.T) {
	n := newNode(t)
	n.fill()
	twin := n.attachment("web-9", "aa11", "10.244.0.3") // an ID with the same beginning, and the same address in another network
	twin.ID.Network, twin.Owner.Network, twin.NetNS.Path = "dmz", "dmz", "/nowhere"
	pair := n.reservation("web-1", "ab00", "10.244.0.30")
	n.must(func(tx *persistence.Tx) error {
		if err := tx.PutReservation(pair); err != nil {
			return err
		}
		return tx.PutAttachment(twin)
	})
	before, _ := n.on("list", "-o", "json")
	for call, want := range map[string]struct {
		exit int
		text string
	}{
		"default/web-1": {ipamtool.ExitNo, "is in use by pod default/web-1"},
		"10.244.0.3":    {ipamtool.ExitFailed, "in the networks dmz and limpet: choose one with --network"},
		"aa":            {ipamtool.ExitFailed, "is the beginning of"},
		"":              {ipamtool.ExitFailed, "takes one argument"},
	} {
		out, exit := n.on("release", call)
		if exit != want.exit || !strings.Contains(out, want.text) {
			t.Errorf("release %s ends with %d: %s", call, exit, out)
		}
	}
	if after, _ := n.on("list", "-o", "json"); n.steady(after) != n.steady(before) {
		t.Errorf("release freed addresses although it refused:\n%s", after)
	}
	if out, exit := n.on("release", "10.244.0.3", "--network", "dmz"); exit != ipamtool.ExitDone {
		t.Errorf("exit %d: %s", exit, out)
	}
}

// TestAnAddressReleasedByHandIsDelayed releases an address on a node whose network has a release delay.
func TestAnAddressReleasedByHandIsDelayed(t *testing.T) {
	n := newNode(t)
	n.must(func(tx *persistence.Tx) error {
		return errors.Join(tx.PutReservation(n.reservation("web-1", "ab00", "10.244.0.30")), tx.SetLimits("limpet", reservation.Limits{ReleaseDelay: time.Hour}))
	})
	if out, exit := n.on("release", "10.244.0.30"); exit != ipamtool.ExitDone {
		t.Fatalf("exit %d: %s", exit, out)
	}
	n.must(func(tx *persistence.Tx) error {
		released, err := tx.Released("limpet", reservation.Release{}, n.ago(0))
		if fmt.Sprint(released.Delayed) != "[10.244.0.30]" {
			t.Errorf("released %+v", released)
		}
		return err
	})
}

// TestReleaseRemovesMirroredFiles releases an address with a mirrored file, and with a file of host-local's own.
func TestReleaseRemovesMirroredFiles(t *testing.T) {
	n := newNode(t)
	lost := n.attachment("web-2", "bb33", "10.244.0.4", "10.244.1.4")
	n.file(os.Remove(lost.NetNS.Path))
	n.must(func(tx *persistence.Tx) error { return tx.PutAttachment(lost) })
	dir := filepath.Join(n.dir, "limpet")
	n.file(hostlocal.New(dir).Mirror(lost.Addresses[0], lost.ID.ContainerID, lost.ID.IfName))
	n.file(os.WriteFile(filepath.Join(dir, "10.244.1.4"), []byte("another\r\neth0"), 0o600))
	if out, exit := n.on("release", "default/web-2"); exit != ipamtool.ExitDone {
		t.Errorf("exit %d: %s", exit, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "10.244.0.4")); err == nil {
		t.Error("the mirrored file is left")
	}
	if _, err := os.Stat(filepath.Join(dir, "10.244.1.4")); err != nil {
		t.Error(err)
	}
}

// TestReleaseRefusesAnUnrecordedNamespace has a container whose network namespace was not recorded at ADD, so
// that the tool cannot tell whether the namespace is gone.
func TestReleaseRefusesAnUnrecordedNamespace(t *testing.T) {
	n := newNode(t)
	unseen := n.attachment("web-2", "bb33", "10.244.0.4")
	unseen.NetNS = reservation.NetNS{Path: "/proc/999999/ns/net"}
	n.must(func(tx *persistence.Tx) error { return tx.PutAttachment(unseen) })
	if out, _ := n.on("list", "-o", "json"); !strings.Contains(out, `"netnsState": "unknown"`) {
		t.Errorf("listed as %s", out)
	}
	if out, exit := n.on("release", "default/web-2"); exit != ipamtool.ExitNo || !strings.Contains(out, "was not recorded") {
		t.Errorf("exit %d: %s", exit, out)
	}
}

// TestReleaseIsLogged releases, is refused, and runs with --dry-run: only the first is logged.
func TestReleaseIsLogged(t *testing.T) {
	n := newNode(t)
	n.fill()
	var got []string
	tool := ipamtool.Tool{
		Now: func() reservation.Moment { return n.now }, NetNS: machine.StatNetNS, Stdout: io.Discard, Stderr: io.Discard,
		Log: func(verb string, o reservation.Owner, id string, addrs []netip.Addr, why string) {
			got = append(got, fmt.Sprint(verb, " ", o, " ", id[:4], " ", addrs, " ", why))
		},
	}
	for _, pod := range []string{"default/db-0", "default/web-0", "default/web-2"} {
		for _, flag := range []string{"--dry-run", "--dry-run=false"} {
			tool.Run(t.Context(), []string{"release", pod, flag, "--data-dir", n.dir})
		}
	}
	want := []string{
		"RELEASE default/db-0 dd55 [10.244.0.5 fd00::5] reserved for default/db-0 until TIME",
		"RELEASE default/web-2 bb33 [10.244.0.4] attached to pod default/web-2 (container bb33000000000), whose network namespace is gone",
	}
	for i := range got {
		got[i] = n.steady(got[i])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCompact shrinks the state of many pods that have gone.
func TestCompact(t *testing.T) {
	n := newNode(t)
	n.fill()
	var many []reservation.Attachment
	for i := range 2000 {
		a := n.attachment("many", "ff00")
		a.ID.ContainerID, a.Owner = fmt.Sprint(i), reservation.Owner{Network: "limpet", IfName: "eth0"}
		many = append(many, a)
	}
	n.must(func(tx *persistence.Tx) error {
		for _, a := range many {
			if err := tx.PutAttachment(a); err != nil {
				return err
			}
		}
		return nil
	})
	n.must(func(tx *persistence.Tx) error {
		for _, a := range many {
			if err := tx.DeleteAttachment(a.ID); err != nil {
				return err
			}
		}
		return nil
	})
	n.golden("compact.txt", "compact -o json", "compact", "check", "compact me")
}
