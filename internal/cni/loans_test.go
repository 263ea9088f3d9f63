package cni_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestNoVerbEndsALoan runs random verbs of pods, some of which follow, in a small pool under pressure, with reboots, a wall clock
// that leaps, and an agent that lends, borrows and ends loans. After each step every loan is in the state as the agent wrote it,
// and no ADD has handed out what is lent, nor what the agent has not confirmed since the reboot.
func TestNoVerbEndsALoan(t *testing.T) {
	first := uint64(1)
	if *explore {
		first = uint64(time.Now().UnixNano())
	}
	seen := map[string]int{}
	for n := range *runs {
		l := &loans{testNode: newTestNode(t), rand: rand.New(rand.NewPCG(first+n, 1)), lent: map[reservation.Owner]holding{}, guests: map[reservation.Owner]holding{}}
		for step := range *steps {
			did := l.do()
			seen[did]++
			if err := l.judge(); err != nil {
				t.Fatalf("seed %d, step %d, %s: %v", first+n, step, did, err)
			}
		}
	}
	t.Log(seen)
	for _, did := range []string{"lend", "take back", "free", "borrow", "give back", "confirm", "ADD 0", "ADD 11", "ADD 100", "guest"} {
		if seen[did] == 0 {
			t.Errorf("%s never happened: the test tests little", did)
		}
	}
}

// holding is what the agent has written.
type holding struct {
	epoch int64
	addrs []netip.Addr
}

// loans drives a node, and remembers its loans.
type loans struct {
	*testNode
	rand         *rand.Rand
	made         []sandbox
	lent, guests map[reservation.Owner]holding
	epoch        int64
	wrong        error
}

func (l *loans) do() string {
	switch n := l.rand.IntN(100); {
	case n < 35:
		return l.newLife()
	case n < 60 && len(l.made) > 0:
		s := l.made[max(len(l.made)-1-l.rand.IntN(8), 0)]
		l.wrong = l.del(s)
		delete(l.netns, s.netns())
		return "DEL"
	case n < 63 && len(l.made) > 0:
		delete(l.netns, l.made[l.rand.IntN(len(l.made))].netns())
		return "namespace"
	case n < 65:
		l.wrong = l.run(l.plugin.Funcs().GC, l.args(bystander, map[string]any{"cni.dev/valid-attachments": []any{}}))
		return "GC"
	case n < 67:
		l.reboot(time.Minute)
		return "reboot"
	case n < 69:
		l.step(time.Duration(l.rand.IntN(200)-50) * 365 * 24 * time.Hour)
		return "leap"
	case n < 73:
		l.pass(5 * time.Minute)
		return "time"
	case n < 75:
		l.wrong = persistence.New(persistence.Options{Dir: l.dir}).Update(l.t.Context(), func(tx *persistence.Tx) error {
			_, err := lifecycle.FreeLapsed(tx, network, l.now)
			return err
		})
		return "sweep"
	}
	return l.agent()
}

// newLife adds a pod. Those with even numbers follow, and those with a loan say where their address is.
func (l *loans) newLife() string {
	n, pod := len(l.made), l.rand.IntN(8)
	s := sandbox{id: fmt.Sprintf("c%d", n), pod: fmt.Sprintf("web-%d", pod), uid: fmt.Sprintf("u%d", n), ifName: "eth0", annotations: map[string]string{reservation.RetainAnnotation: "10"}}
	if pod%2 == 0 {
		s.annotations = map[string]string{reservation.ModeAnnotation: "follow"}
		if len(l.guests[s.owner()].addrs)+len(l.lent[s.owner()].addrs) > 0 {
			s.annotations[reservation.HomeAnnotation] = "n2"
		}
	}
	before := l.read()
	l.made = append(l.made, s)
	l.start(s)
	addrs, err := l.add(s)
	if code := codeOf(err); code != 0 {
		if code != 11 && code != 100 {
			l.wrong = err
		}
		return fmt.Sprint("ADD ", code)
	}
	for o, h := range l.lent {
		if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return slices.Contains(h.addrs, a) }) || o == s.owner() {
			l.wrong = fmt.Errorf("%s got %v, and %v of %s is lent", s.owner(), addrs, h.addrs, o)
		}
	}
	if r, found := before.Reserved[s.owner()]; found && r.Mode == reservation.Follow && r.BootID != l.now.BootID {
		l.wrong = fmt.Errorf("%s got %v, which no agent has confirmed since the reboot", s.owner(), addrs)
	}
	if h, guest := l.guests[s.owner()]; guest {
		if !slices.Equal(addrs, h.addrs) {
			l.wrong = fmt.Errorf("%s got %v, and is a guest with %v", s.owner(), addrs, h.addrs)
		}
		return "guest"
	}
	return "ADD 0"
}

// agent makes a step of the agent for an owner that follows.
func (l *loans) agent() string {
	pod := 2 * l.rand.IntN(4)
	owner := reservation.Owner{Network: network, Namespace: "ns", Pod: fmt.Sprintf("web-%d", pod), IfName: "eth0"}
	lent, lends := l.lent[owner]
	guest, borrows := l.guests[owner]
	own := l.read().Reserved[owner].Addresses
	l.epoch++
	did, addrs, step := "confirm", own, loan.Step{Record: loan.Record{Lent: lent.epoch, Guest: guest.epoch}}
	keep := l.rand.IntN(4) > 0
	switch {
	case lends && l.rand.IntN(2) == 0:
		did, addrs, step = "free", lent.addrs, loan.Step{}
		if keep {
			did, step.Reserve = "take back", true
		}
	case borrows && l.rand.IntN(3) == 0:
		did, addrs, step = "give back", guest.addrs, loan.Step{Unattached: true}
	case borrows:
		did, addrs, step = "borrow", guest.addrs, loan.Step{Record: loan.Record{Guest: l.epoch}}
	case lends: // is confirmed
	case keep && len(own) > 0:
		did, step = "lend", loan.Step{Record: loan.Record{Lent: l.epoch}, Unattached: true}
	case !keep:
		did, addrs = "borrow", []netip.Addr{netip.AddrFrom4([4]byte{10, 9, 0, byte(pod)}), netip.AddrFrom16([16]byte{0xfd, 9, 15: byte(pod)})}
		step = loan.Step{Record: loan.Record{Guest: l.epoch}}
	}
	step.Verb, step.Record.Confirmed = loan.Write, true
	err := persistence.New(persistence.Options{Dir: l.dir}).Update(l.t.Context(), func(tx *persistence.Tx) error {
		return lifecycle.WriteLoan(tx, owner, addrs, step, l.now)
	})
	switch {
	case errors.Is(err, reservation.ErrHeld), len(addrs) == 0:
		return did + " refused"
	case err != nil:
		l.wrong = err
	}
	delete(l.lent, owner)
	delete(l.guests, owner)
	if step.Record.Lent != 0 {
		l.lent[owner] = holding{step.Record.Lent, addrs}
	}
	if step.Record.Guest != 0 {
		l.guests[owner] = holding{step.Record.Guest, addrs}
	}
	return did
}

// judge compares the loans with the state.
func (l *loans) judge() error {
	s, err := l.read(), l.wrong
	for o, h := range l.lent {
		if r := s.Reserved[o]; r.Lent != h.epoch || !slices.Equal(r.Addresses, h.addrs) {
			err = errors.Join(err, fmt.Errorf("%s is lent as %v, and the state has %+v", o, h, r))
		}
	}
	for o, h := range l.guests {
		r, found := s.Reserved[o], 0
		if r.Guest == h.epoch && slices.Equal(r.Addresses, h.addrs) {
			found++
		}
		for _, a := range s.Attached {
			if a.Owner == o && a.Guest == h.epoch && slices.Equal(a.Addresses, h.addrs) {
				found++
			}
		}
		if found != 1 {
			err = errors.Join(err, fmt.Errorf("%s is a guest as %v, and the state has %+v, %+v", o, h, r, s.Attached))
		}
	}
	report, auditErr := persistence.New(persistence.Options{Dir: l.dir}).Audit(l.t.Context(), nil)
	if len(report.Faults) > 0 {
		err = errors.Join(err, fmt.Errorf("audit: %+v", report.Faults))
	}
	if errors.Is(auditErr, persistence.ErrNoState) {
		auditErr = nil
	}
	return errors.Join(err, auditErr)
}
