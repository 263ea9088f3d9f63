package cni_test

import (
	"errors"
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

	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var (
	seed  = flag.Uint64("seed", 0, "replay the model test with this seed only")
	steps = flag.Int("steps", 250, "operations of each run of the model test")
	runs  = flag.Uint64("runs", 12, "runs of the model test")

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
	if testing.Short() {
		*runs = min(*runs, uint64(len(settings)))
	}
	for n := range *runs {
		t.Run(fmt.Sprintf("seed %d", first+n), func(t *testing.T) {
			t.Parallel()
			m := newModel(newTestNode(t), first+n)
			for m.step = 0; m.step < *steps || (m.unseen() != "" && m.step < 20**steps); m.step++ {
				m.do()
			}
			t.Log(m.step, m.seen)
			if op := m.unseen(); op != "" {
				t.Errorf("no %q in %d steps: the test tests little (%v)", op, m.step, m.seen)
			}
		})
	}
}

// model drives the node and keeps, in the plainest way, what should be there.
type model struct {
	*testNode
	rand    *rand.Rand
	step    int
	made    []sandbox
	truth   map[string]time.Duration                  // true time by clock reading
	holds   map[reservation.AttachmentID][]netip.Addr // what each attachment was told
	refused map[refusal]time.Duration                 // true time of the first
	freed   map[netip.Addr]freed
	had     map[string][]netip.Addr
	booted  string
	setting setting
	history []string
	seen    map[string]int
}

func newModel(w *testNode, seed uint64) *model {
	m := &model{
		testNode: w, rand: rand.New(rand.NewPCG(seed, 0)), truth: map[string]time.Duration{}, seen: map[string]int{},
		holds: map[reservation.AttachmentID][]netip.Addr{}, refused: map[refusal]time.Duration{}, setting: settings[seed%uint64(len(settings))],
		freed: map[netip.Addr]freed{}, had: map[string][]netip.Addr{},
	}
	w.ipam = m.setting.ipam()
	w.recovery.Interfaces = m.interfaces
	return m
}

// interfaces is what a look into the namespaces finds.
func (m *model) interfaces() (all []machine.Interface, err error) {
	for _, s := range m.made {
		n, lives := m.netns[s.netns()]
		if addrs := m.inside[s.netns()]; lives && len(addrs) > 0 {
			all = append(all, machine.Interface{NetNS: n, Name: s.ifName, Addresses: slices.Clone(addrs)})
		}
	}
	return all, nil
}

// unseen returns something that a run must have shown and has not yet; "" for nothing.
// A run goes on until then, so that no seed tests too little.
func (m *model) unseen() string {
	for _, op := range []string{"ADD 0", "ADD 5", "ADD 11", "ADD 100", "DEL 0", "GC 0", "rollback", "busy", "rebuilt", "stuck", "waits for a namespace", m.setting.squeeze()} {
		if m.seen[op] == 0 {
			return op
		}
	}
	return ""
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
	case n < 62 && len(m.made) > 0:
		m.delStep(m.any())
	case n < 70 && len(m.holds) > 0:
		m.delStep(m.holding())
	case n < 73:
		m.damageStep()
	case n < 75:
		m.busyStep()
	case n < 78:
		m.gcStep()
	case n < 83 && len(m.made) > 0:
		delete(m.netns, m.any().netns())
	case n < 93:
		m.pass(time.Duration(m.rand.Int64N(int64(8 * time.Minute))))
	case n < 95:
		m.testNode.step(time.Duration(m.rand.Int64N(int64(48*time.Hour))) - 24*time.Hour)
	case n < 96:
		m.reboot(time.Duration(m.rand.Int64N(int64(20 * time.Minute))))
	case n < 98:
		m.agentStep("sweep", m.sweep)
	default:
		m.agentStep("annotate", m.annotate)
	}
}

func reading(now reservation.Moment) string { return now.BootID + now.Up.String() }

// any returns an earlier sandbox, more often than not one that may still run.
func (m *model) any() sandbox {
	from := 0
	if m.rand.IntN(4) > 0 {
		from = max(len(m.made)-12, 0)
	}
	return m.made[from+m.rand.IntN(len(m.made)-from)]
}

// holding returns a sandbox that has addresses.
func (m *model) holding() sandbox {
	var all []sandbox
	for _, s := range m.made {
		if _, holds := m.holds[s.attachment()]; holds {
			all = append(all, s)
		}
	}
	return all[m.rand.IntN(len(all))]
}

// newLife makes a sandbox for a new life of one of a few pods. The namespace of an
// earlier life is gone more often than not.
func (m *model) newLife() sandbox {
	asks := []map[string]string{
		nil,
		{},
		{reservation.RetainAnnotation: "5"},
		{reservation.RetainAnnotation: "10"},
		{reservation.RetainAnnotation: "120"},
		{reservation.RetainAnnotation: "soon"},
		{reservation.RetainAnnotation: "10", reservation.ModeAnnotation: "required"},
	}
	n := len(m.made)
	return m.make(sandbox{
		id: fmt.Sprintf("c%d", n), ns: []string{"ns", "ns", "other"}[m.rand.IntN(3)], pod: fmt.Sprintf("web-%d", m.rand.IntN(5)), uid: fmt.Sprintf("uid-%d", n),
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
	alive, inside := maps.Clone(m.netns), maps.Clone(m.inside)
	refused := maps.Clone(m.refused)
	if m.booted != m.now.BootID { // the kernel has forgotten the owners
		m.booted = m.now.BootID
		clear(m.freed)
	}
	return happened{
		refused: func(r refusal) (time.Duration, bool) {
			since, found := refused[r]
			return m.elapsed - since, found
		},
		verb: verb, of: of, before: m.read(), now: m.now, setting: m.setting, freed: m.freed, had: m.had,
		alive: func(a reservation.Attachment) bool { return a.NetNS.Inode != 0 && alive[a.NetNS.Path] == a.NetNS },
		inUse: func(addrs []netip.Addr) bool {
			for path, has := range inside {
				if _, exists := alive[path]; exists && slices.ContainsFunc(has, func(a netip.Addr) bool { return slices.Contains(addrs, a) }) {
					return true
				}
			}
			return false
		},
		expired: func(r reservation.Reservation) bool {
			if r.Deadline.From.BootID != m.now.BootID { // only the wall clock can tell
				return m.now.Wall.Sub(r.Deadline.From.Wall) >= r.Deadline.For
			}
			return m.elapsed-m.truth[reading(r.Deadline.From)] >= r.Deadline.For
		},
	}
}

// judge asserts the rules and compares the state with the model.
func (m *model) judge(h happened) {
	m.t.Helper()
	h.after = h.before
	if !h.hopeless {
		h.after = m.read()
	}
	h.took, h.inside = m.took, map[string][]netip.Addr{}
	for path := range m.netns {
		h.inside[path] = m.inside[path]
	}
	line := fmt.Sprintf("%d %s %s %s rollback=%t orphan=%t busy=%t damage=%q hopeless=%t -> %d %v",
		m.step, h.verb, h.of.pod, h.of.id, h.rollback, h.orphan, h.busy, h.damage, h.hopeless, h.code, h.addrs)
	m.history = append(m.history, line)
	m.seen[fmt.Sprintf("%s %d", h.verb, h.code)]++
	if h.damage == "" { // which is undone
		m.noteRefusal(h)
	}
	m.noteSqueeze(h)
	if h.rollback {
		m.seen["rollback"]++
	}
	if h.busy {
		m.seen["busy"]++
	}
	for _, rule := range rules {
		if h.damage != "" && !rule.rebuilt {
			continue
		}
		if err := rule.check(h); err != nil {
			m.t.Errorf("rule %s: %v", rule.name, err)
		}
	}
	if h.damage != "" && !h.hopeless {
		m.seen["rebuilt"]++
	}
	if !h.hopeless && h.code != 0 && h.code != 11 && h.code != 100 && h.code != 102 {
		m.t.Errorf("%s failed with code %d", h.verb, h.code)
	}
	holds := map[reservation.AttachmentID][]netip.Addr{}
	for id, a := range h.after.Attached {
		holds[id] = a.Addresses
	}
	if diff := cmp.Diff(m.holds, holds, cmpopts.EquateComparable(netip.Addr{})); diff != "" && h.damage == "" {
		m.t.Errorf("attached (-model +state file):\n%s", diff)
	}
	if h.damage == "" {
		m.noteFreed(h)
		m.noteHad(h)
		m.audit()
	}
	if m.t.Failed() {
		from := max(len(m.history)-25, 0)
		for _, l := range m.history[from:] {
			m.t.Log(l)
		}
		m.t.FailNow()
	}
}

// audit looks for faults in the state now and then: an index or the order of reservations that verbs did not keep.
func (m *model) audit() {
	if m.step%5 != 0 {
		return
	}
	report, err := persistence.New(persistence.Options{Dir: m.dir}).Audit(m.t.Context(), nil)
	if err != nil && !errors.Is(err, persistence.ErrNoState) || len(report.Faults) > 0 {
		m.t.Errorf("audit: %v, %v", report.Faults, err)
	}
}

// noteFreed remembers when addresses were freed.
func (m *model) noteFreed(h happened) {
	for _, a := range m.setting.addresses() {
		if held(h.before, a) && !held(h.after, a) {
			ended, known := h.before.Attached[h.of.attachment()]
			certain := h.verb == "DEL" && known && !h.rollback && slices.Contains(ended.Addresses, a)
			m.freed[a] = freed{up: h.now.Up, certain: certain, life: lifeOf(ended.UID, ended.ID.IfName)}
		}
	}
}

// noteHad remembers what each life of a pod had last, where that is certain, and no other pod has had since.
func (m *model) noteHad(h happened) {
	for o, r := range h.before.Reserved {
		if _, still := h.after.Reserved[o]; !still {
			delete(m.had, lifeOf(r.UID, o.IfName))
		}
	}
	for id, a := range h.after.Attached {
		life := lifeOf(a.UID, id.IfName)
		maps.DeleteFunc(m.had, func(of string, had []netip.Addr) bool {
			return of != life && slices.ContainsFunc(had, func(addr netip.Addr) bool { return slices.Contains(a.Addresses, addr) })
		})
	}
	for id, a := range h.before.Attached {
		if _, still := h.after.Attached[id]; still || h.rollback {
			continue
		}
		if life := lifeOf(a.UID, id.IfName); h.verb == "DEL" && a.UID != "" {
			m.had[life] = a.Addresses
		} else {
			delete(m.had, life)
		}
	}
}

// noteRefusal remembers when a successor was first turned away by a living predecessor, for
// as long as that predecessor is there and no other successor was.
func (m *model) noteRefusal(h happened) {
	if by, found := h.mustWait(); found && h.verb == "ADD" && h.code == 11 && !h.busy {
		now := refusal{by, h.of.uid}
		if _, attached := h.before.Attached[by]; !attached {
			m.seen["waits for a namespace"]++
		}
		maps.DeleteFunc(m.refused, func(r refusal, _ time.Duration) bool { return r.by == now.by && r != now })
		if _, noted := m.refused[now]; !noted {
			m.refused[now] = m.elapsed
		}
	}
	maps.DeleteFunc(m.refused, func(r refusal, _ time.Duration) bool {
		_, attached := h.after.Attached[r.by]
		if _, was := h.before.Attached[r.by]; attached && !was {
			return true // the same container once more, which no runtime makes, is another predecessor
		}
		left := maps.Clone(h.after.Reserved)
		for _, a := range h.after.Attached {
			if a.Dropped != nil { // a rollback puts it back
				left[a.Dropped.Owner] = *a.Dropped
			}
		}
		for o, reserved := range left {
			attached = attached || endedLife(o, reserved) == r.by
		}
		return !attached
	})
}
