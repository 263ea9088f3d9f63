package cni_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/cni"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func TestALockThatIsHeldMeansTryAgainLater(t *testing.T) {
	w := newTestNode(t)
	if _, err := w.add(web0); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(w.dir, "limpet.lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	brief := w.ipamWith(`{"lockWait":"20ms"}`)
	verbs := w.plugin.Funcs()
	if err := verbs.Del(w.args(web0, brief)); codeOf(err) != types.ErrTryAgainLater {
		t.Errorf("DEL: %v, want code 11", err)
	}
	if _, err := w.addUncached(sandbox{id: "c1", pod: "p", ifName: "eth0"}, brief); codeOf(err) != types.ErrTryAgainLater {
		t.Errorf("ADD: %v, want code 11", err)
	}
	if err := verbs.Status(w.args(web0, brief)); codeOf(err) != 50 {
		t.Errorf("STATUS: %v, want code 50: each ADD fails", err)
	}
}

func TestRangesThatChangedUnderAReservation(t *testing.T) {
	for mode, want := range map[string]uint{"required": cni.CodeRequired, "preferred": 0} {
		t.Run(mode, func(t *testing.T) {
			w := newTestNode(t)
			s := web0
			s.annotations = map[string]string{reservation.RetainAnnotation: "10", reservation.ModeAnnotation: mode}
			if _, err := w.add(s); err != nil {
				t.Fatal(err)
			}
			if err := w.del(s); err != nil {
				t.Fatal(err)
			}
			s.id = "c1"
			addrs, err := w.addUncached(s, w.ipamWith(`{"ranges":[[{"subnet":"10.7.0.0/24"}]]}`))
			if codeOf(err) != want {
				t.Fatalf("%v, want code %d", err, want)
			}
			if err == nil && (fmt.Sprint(addrs) != "[10.7.0.2]" || !strings.Contains(w.log.String(), "cannot be handed out any more")) {
				t.Errorf("took %v and logged %s", addrs, w.log.String())
			}
		})
	}
}

func TestAnnotationsThatOnlyDELBrings(t *testing.T) {
	for name, tc := range map[string]struct {
		atAdd, atDel map[string]string
		reserved     int
	}{
		"from a runtime that sent none before": {atDel: map[string]string{reservation.RetainAnnotation: "10"}, reserved: 1},
		"do not count when ADD brought some":   {atAdd: map[string]string{}, atDel: map[string]string{reservation.RetainAnnotation: "10"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			s := web0
			s.annotations = tc.atAdd
			if _, err := w.add(s); err != nil {
				t.Fatal(err)
			}
			s.annotations = tc.atDel
			if err := w.del(s); err != nil {
				t.Fatal(err)
			}
			if got := len(w.read().Reserved); got != tc.reserved {
				t.Errorf("%d reserved, want %d", got, tc.reserved)
			}
		})
	}
}
