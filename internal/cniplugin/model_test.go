package cniplugin_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var (
	seed  = flag.Uint64("seed", 0, "replay the model test with this seed only")
	steps = flag.Int("steps", 250, "operations of each run of the model test")
	runs  = flag.Uint64("runs", 8, "runs of the model test")

	explore = flag.Bool("explore", false, "begin the model test's seeds at random")
)

// TestRulesHoldUnderRandomOperations runs random verbs, crashes of the caller,
// clock steps and reboots over a real state file, asserts every rule after each
// step, and compares the state with a model of plain maps.
func TestRulesHoldUnderRandomOperations(t *testing.T) {
	first := uint64(1) // the same runs each time; -explore looks further
	if *explore {
		first = uint64(time.Now().UnixNano())
	}
	if *seed != 0 {
		first, *runs = *seed, 1
	}
	for n := range *runs {
		t.Run(fmt.Sprintf("seed %d", first+n), func(t *testing.T) {
			t.Parallel()
			m := &model{world: newWorld(t), rand: rand.New(rand.NewPCG(first+n, 0)), truth: map[string]time.Duration{}, holds: map[reservation.AttachmentID][]netip.Addr{}, refused: map[reservation.AttachmentID]time.Duration{}}
			for m.step = range *steps {
				m.do()
			}
			for _, op := range []string{"ADD 0", "ADD 11", "DEL 0", "GC 0", "rollback"} {
				if m.seen[op] == 0 && *seed == 0 && *steps >= 250 {
					t.Errorf("no %q in %d steps: the test tests little (%v)", op, *steps, m.seen)
				}
			}
		})
	}
}

// model drives the world and keeps, in the plainest way, what should be there.
type model struct {
	*world
	rand    *rand.Rand
	step    int
	made    []sandbox
	truth   map[string]time.Duration                   // true time by clock reading
	holds   map[reservation.AttachmentID][]netip.Addr  // what each attachment was told
	refused map[reservation.AttachmentID]time.Duration // true time of the first refusal because of it
	history []string
	seen    map[string]int
}

func (m *model) do() {
	m.truth[reading(m.now)] = m.elapsed
	switch n := m.rand.IntN(100); {
	case n < 30:
		m.addStep(m.newLife(), false)
	case n < 36:
		m.addStep(m.restart(), false)
	case n < 40 && len(m.made) > 0:
		m.addStep(m.any(), false)
	case n < 43:
		m.addStep(m.newLife(), true)
	case n < 51:
		m.failingAdd(m.newLife())
	case n < 75 && len(m.made) > 0:
		m.delStep(m.any())
	case n < 78:
		m.gcStep()
	case n < 83 && len(m.made) > 0:
		delete(m.netns, m.any().netns())
	case n < 93:
		m.pass(time.Duration(m.rand.Int64N(int64(8 * time.Minute))))
	case n < 95:
		m.world.step(time.Duration(m.rand.Int64N(int64(48*time.Hour))) - 24*time.Hour)
	case n < 96:
		m.reboot(time.Duration(m.rand.Int64N(int64(20 * time.Minute))))
	case n < 98:
		m.agentStep("sweep", m.sweep)
	default:
		m.agentStep("annotate", m.annotate)
	}
}

func reading(now reservation.Moment) string { return now.BootID + now.Up.String() }

func (m *model) any() sandbox { return m.made[m.rand.IntN(len(m.made))] }

// newLife makes a sandbox for a new life of one of a few pods. The namespace of an
// earlier life is gone more often than not.
func (m *model) newLife() sandbox {
	asks := []map[string]string{
		nil,
		{},
		{reservation.RetainAnnotation: "5"},
		{reservation.RetainAnnotation: "10"},
		{reservation.RetainAnnotation: "soon"},
		{reservation.RetainAnnotation: "10", reservation.ModeAnnotation: "required"},
	}
	n := len(m.made)
	return m.make(sandbox{
		id: fmt.Sprintf("c%d", n), pod: fmt.Sprintf("web-%d", m.rand.IntN(5)), uid: fmt.Sprintf("uid-%d", n),
		ifName: []string{"eth0", "eth0", "net1"}[m.rand.IntN(3)], annotations: asks[m.rand.IntN(len(asks))],
	})
}

// restart makes another sandbox for the life of an earlier one, whose namespace
// is gone but whose DEL never came.
func (m *model) restart() sandbox {
	if len(m.made) == 0 {
		return m.newLife()
	}
	s := m.any()
	delete(m.netns, s.netns())
	s.id = fmt.Sprintf("c%d", len(m.made))
	return m.make(s)
}

func (m *model) make(s sandbox) sandbox {
	m.made = append(m.made, s)
	m.start(s)
	return s
}

func (m *model) happened(verb string, of sandbox) happened {
	alive := maps.Clone(m.netns)
	refused := maps.Clone(m.refused)
	return happened{
		refused: func(id reservation.AttachmentID) (time.Duration, bool) {
			since, found := refused[id]
			return m.elapsed - since, found
		},
		verb: verb, of: of, before: m.read(), now: m.now,
		alive: func(a reservation.Attachment) bool { return a.NetNS.Inode != 0 && alive[a.NetNS.Path] == a.NetNS },
		expired: func(r reservation.Reservation) bool {
			if r.Deadline.From.BootID != m.now.BootID { // only the wall clock can tell
				return m.now.Wall.Sub(r.Deadline.From.Wall) >= r.Deadline.For
			}
			return m.elapsed-m.truth[reading(r.Deadline.From)] >= r.Deadline.For
		},
	}
}

func (m *model) addStep(s sandbox, orphan bool) {
	h := m.happened("ADD", s)
	m.orphan = orphan
	addrs, err := m.add(s)
	m.orphan, h.orphan = false, orphan
	h.addrs, h.code = addrs, codeOf(err)
	if err == nil {
		m.holds[s.attachment()] = addrs
		for id, a := range h.before.Attached {
			if a.Owner == s.owner() && !h.alive(a) {
				delete(m.holds, id)
			}
		}
	}
	m.judge(h)
}

func (m *model) delStep(s sandbox) {
	if m.rand.IntN(3) > 0 {
		delete(m.netns, s.netns())
	}
	h := m.happened("DEL", s)
	h.code = codeOf(m.del(s))
	delete(m.holds, s.attachment())
	m.judge(h)
}

// failingAdd is an ADD after which a plugin further on fails: no cache file is
// written, and the DEL has no earlier result.
func (m *model) failingAdd(s sandbox) {
	before := m.happened("ADD", s)
	addrs, err := m.addUncached(s, nil)
	before.addrs, before.code = addrs, codeOf(err)
	if err != nil {
		m.judge(before)
		return
	}
	m.holds[s.attachment()] = addrs
	found := maps.Clone(before.before.Reserved)
	for id, a := range before.before.Attached {
		if a.Owner != s.owner() || before.alive(a) {
			continue
		}
		delete(m.holds, id)
		if a.Seq == newestSeq(before.before, s.owner()) && a.Retain > 0 { // ended unseen: the ADD reserves and claims in one
			found[s.owner()] = reservation.Reservation{Addresses: a.Addresses, Deadline: reservation.Deadline{From: m.now, For: a.Retain}}
		}
	}
	m.judge(before)

	h := m.happened("DEL", s)
	h.rollback, h.beforeAdd = true, found
	h.code = codeOf(m.del(s))
	delete(m.holds, s.attachment())
	m.judge(h)
}

func (m *model) gcStep() {
	h := m.happened("GC", sandbox{id: "none", ifName: "eth0"})
	list := []map[string]string{}
	for _, s := range m.made {
		if m.rand.IntN(10) > 0 {
			h.valid = append(h.valid, s)
			list = append(list, map[string]string{"containerID": s.id, "ifname": s.ifName})
		}
	}
	raw, err := json.Marshal(list)
	if err != nil {
		m.t.Fatal(err)
	}
	h.code = codeOf(m.plugin.Funcs().GC(m.args(h.of, map[string]any{"cni.dev/valid-attachments": json.RawMessage(raw)})))
	maps.DeleteFunc(m.holds, func(id reservation.AttachmentID, _ []netip.Addr) bool {
		return !slices.ContainsFunc(h.valid, func(s sandbox) bool { return s.attachment() == id })
	})
	m.judge(h)
}

// agentStep does to the state what the agent does.
func (m *model) agentStep(what string, do func(*persistence.Tx) error) {
	if m.step == 0 {
		return
	}
	h := m.happened(what, sandbox{})
	if err := persistence.New(persistence.Options{Dir: m.dir}).Update(m.t.Context(), do); err != nil {
		m.t.Fatal(err)
	}
	m.judge(h)
}

func (m *model) sweep(tx *persistence.Tx) error {
	all, err := tx.Reservations(network)
	for _, r := range reservation.Lapsed(all, m.now) {
		if err := tx.DeleteReservation(r.Owner); err != nil {
			return err
		}
	}
	return err
}

func (m *model) annotate(tx *persistence.Tx) error {
	all, err := tx.Attachments(network)
	if err != nil || len(all) == 0 {
		return err
	}
	a := all[m.rand.IntN(len(all))]
	a.Retain, a.WishKnown = time.Duration(m.rand.IntN(3))*5*time.Minute, true
	return tx.PutAttachment(a)
}

// judge asserts the rules and compares the state with the model.
func (m *model) judge(h happened) {
	m.t.Helper()
	h.after = m.read()
	line := fmt.Sprintf("%d %s %s %s rollback=%t -> %d %v", m.step, h.verb, h.of.pod, h.of.id, h.rollback, h.code, h.addrs)
	m.history = append(m.history, line)
	if m.seen == nil {
		m.seen = map[string]int{}
	}
	m.seen[fmt.Sprintf("%s %d", h.verb, h.code)]++
	m.noteRefusal(h)
	if h.rollback {
		m.seen["rollback"]++
	}
	for _, rule := range rules {
		if err := rule.check(h); err != nil {
			m.t.Errorf("rule %s: %v", rule.name, err)
		}
	}
	if h.code != 0 && h.code != 11 && h.code != 100 && h.code != 102 {
		m.t.Errorf("%s failed with code %d", h.verb, h.code)
	}
	holds := map[reservation.AttachmentID][]netip.Addr{}
	for id, a := range h.after.Attached {
		holds[id] = a.Addresses
	}
	if diff := cmp.Diff(m.holds, holds, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		m.t.Errorf("attached (-model +state file):\n%s", diff)
	}
	if m.t.Failed() {
		from := max(len(m.history)-25, 0)
		for _, l := range m.history[from:] {
			m.t.Log(l)
		}
		m.t.FailNow()
	}
}

// noteRefusal remembers when a living predecessor first turned a successor away.
func (m *model) noteRefusal(h happened) {
	if h.verb != "ADD" || h.code != 11 {
		return
	}
	for id, a := range h.before.Attached {
		if a.Owner == h.of.owner() && h.alive(a) && a.Seq == newestSeq(h.before, h.of.owner()) {
			if _, noted := m.refused[id]; !noted {
				m.refused[id] = m.elapsed
			}
		}
	}
}
