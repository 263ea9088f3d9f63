package persistence_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var boot = reservation.Moment{Wall: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), BootID: "boot", Up: time.Hour}

// after returns the moment some seconds after boot.
func after(seconds int) reservation.Moment {
	m := boot
	m.Up += time.Duration(seconds) * time.Second
	m.Wall = m.Wall.Add(time.Duration(seconds) * time.Second)
	return m
}

// released stores a release of 10.0.0.N with a delay of 30 s.
func released(tx *persistence.Tx, network string, at reservation.Moment, ns ...int) error {
	var addrs []netip.Addr
	for _, n := range ns {
		addrs = append(addrs, netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}))
	}
	return errors.Join(tx.SetLimits(network, reservation.Limits{ReleaseDelay: 30 * time.Second}), tx.PutReleased(reservation.Release{Network: network, Addresses: addrs, Until: at}, at))
}

func TestReleased(t *testing.T) {
	other := after(10)
	other.BootID = "another boot"
	for name, tc := range map[string]struct {
		now    reservation.Moment
		want   string
		lately int
	}{
		"the earliest first":       {now: after(20), want: "10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.1", lately: 4},
		"while the delay lasts":    {now: after(31), want: "10.0.0.3 10.0.0.1", lately: 4},
		"after the delay":          {now: after(45), lately: 4},
		"for ten minutes":          {now: after(605), lately: 2},
		"and no longer":            {now: after(610)},
		"a reboot ends both":       {now: other},
		"the wall clock is unused": {now: reservation.Moment{BootID: "boot", Up: after(20).Up}, want: "10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.1", lately: 4},
	} {
		t.Run(name, func(t *testing.T) {
			s := persistence.New(persistence.Options{Dir: t.TempDir()})
			update(t, s, func(tx *persistence.Tx) error {
				return errors.Join(released(tx, "net", after(0), 1, 2), released(tx, "other", after(1), 9), released(tx, "net", after(10), 3, 1))
			})
			got := func(tx *persistence.Tx) error {
				r, err := tx.Released("net", reservation.Release{}, tc.now)
				if is := strings.Trim(fmt.Sprint(r.Delayed), "[]"); is != tc.want || len(r.Delayed)+len(r.Before) != tc.lately || r.Lately(netip.MustParseAddr("10.0.0.3")) != (tc.lately > 0) {
					t.Errorf("released %+v; want %s and %d in all", r, tc.want, tc.lately)
				}
				return err
			}
			view(t, s, got)
			update(t, s, got)
			view(t, s, got)
		})
	}
}

// TestReleasesAreForgotten covers the bounds: in time, by the next verb that looks, and in number.
func TestReleasesAreForgotten(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	stored := func() (n int) {
		inside(t, persistence.ActiveFold(s.Dir()), func(tx *bolt.Tx) error {
			n = tx.Bucket([]byte("released")).Stats().KeyN
			return nil
		})
		return n
	}
	update(t, s, func(tx *persistence.Tx) (err error) {
		for n := range 2000 {
			err = errors.Join(err, released(tx, "net", after(0), n))
		}
		return err
	})
	if n := stored(); n != 256 {
		t.Errorf("%d releases are stored, want 256", n)
	}
	update(t, s, func(tx *persistence.Tx) error {
		_, err := tx.Released("other", reservation.Release{}, after(600))
		return err
	})
	if n := stored(); n != 0 {
		t.Errorf("%d releases are stored after ten minutes", n)
	}
}

// TestAnAddressThatAnotherPodHadIsNotOwn releases an address of a pod, and later that of another pod which had got it: it waits
// for its release delay then, also before the first pod gets it again.
func TestAnAddressThatAnotherPodHadIsNotOwn(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	life := func(uid string, addrs ...string) reservation.Release {
		r := reservation.Release{Network: "net", UID: uid, IfName: "eth0", Until: after(0)}
		for _, a := range addrs {
			r.Addresses = append(r.Addresses, netip.MustParseAddr(a))
		}
		return r
	}
	update(t, s, func(tx *persistence.Tx) error {
		err := tx.SetLimits("net", reservation.Limits{ReleaseDelay: time.Minute})
		for _, r := range []reservation.Release{life("first", "10.0.0.2", "fd00::2"), life("other", "10.0.0.2")} {
			err = errors.Join(err, tx.PutReleased(r, after(0)))
		}
		r, err2 := tx.Released("net", life("first"), after(1))
		if fmt.Sprint(r.Own) != "[fd00::2]" || len(r.Delayed) != 3 {
			t.Errorf("released %+v", r)
		}
		return errors.Join(err, err2)
	})
}

// TestUnreadableReleaseIsNone damages a record: a hint is no reason to rebuild the state.
func TestUnreadableReleaseIsNone(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	update(t, s, func(tx *persistence.Tx) error {
		return errors.Join(released(tx, "net", after(0), 1), released(tx, "net", after(0), 2))
	})
	inside(t, persistence.ActiveFold(s.Dir()), func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("released"))
		k, _ := b.Cursor().First()
		return b.Put(k, []byte("{"))
	})
	update(t, s, func(tx *persistence.Tx) error {
		r, err := tx.Released("net", reservation.Release{}, after(1))
		if fmt.Sprint(r.Delayed) != "[10.0.0.2]" {
			t.Errorf("released %+v", r)
		}
		return err
	})
}

// TestStateOfAnOlderVersionHasNoReleases reads and writes a file of a version without the bucket.
func TestStateOfAnOlderVersionHasNoReleases(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	update(t, s, func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(1)) })
	inside(t, persistence.ActiveFold(s.Dir()), func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("released")) })
	none := func(tx *persistence.Tx) error {
		r, err := tx.Released("net", reservation.Release{}, boot)
		if len(r.Delayed)+len(r.Before) != 0 {
			t.Errorf("released %+v", r)
		}
		return err
	}
	view(t, s, none)
	update(t, s, func(tx *persistence.Tx) error { return errors.Join(none(tx), released(tx, "net", boot, 1)) })
}

// BenchmarkReleased reads the releases of a network, as an ADD does.
func BenchmarkReleased(b *testing.B) {
	for _, n := range []int{0, 4, 100, 256} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := persistence.New(persistence.Options{Dir: b.TempDir()})
			err := s.Update(b.Context(), func(tx *persistence.Tx) (err error) {
				for i := range n {
					err = errors.Join(err, released(tx, "net", boot, i))
				}
				return err
			})
			err = errors.Join(err, s.View(b.Context(), func(tx *persistence.Tx) error {
				for b.Loop() {
					if _, err := tx.Released("net", reservation.Release{}, boot); err != nil {
						return err
					}
				}
				return nil
			}))
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}
