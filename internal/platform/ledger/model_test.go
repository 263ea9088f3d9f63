package ledger_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// The model is the functions of this package and a small cluster around them: an API server
// with compare-and-set, two replicas with caches that may be behind, pods, and requests that
// were admitted and are not yet written. All orders of all moves are tried.
//
// A book is compared by its content. A real compare-and-set refuses more: a replica would then
// read the same content again.

const (
	bookCount = 2 // as many as a wrong variant has
	podCount  = 3
	replicas  = 2

	tick      = ledger.Bound / 2 // so that an entry lasts two ticks
	writeTime = 2                // a request is written before two ticks have passed
)

// shape is what one run of the model is about.
type shape struct {
	budgets [][]int // the pods of each budget; one of them may be unavailable
	changed int     // the pod that is changed in place; -1 for none
	returns bool    // pods come back
	touches bool    // the kubelet writes the status of the changed pod
	old     bool    // the cluster gives pods no generations
	silent  bool    // the kubelet of the changed pod is silent until it speaks
	ticks   int8    // how far time goes
	late    bool    // the last budget is made later
}

// rules are the functions under test. A wrong variant replaces one of them.
type rules struct {
	book    func(budgets []int) int // the book that decides for some budgets
	take    func(ledger.Book, ledger.Entry) (ledger.Book, bool)
	observe func(ledger.Book, ledger.Seen, time.Time) (ledger.Book, []ledger.Entry)
	refresh func(ledger.Book, ledger.Seen, time.Time) (ledger.Book, bool)
	knows   func(ledger.Book, string) bool
	cas     bool
}

func rightRules() rules {
	return rules{func([]int) int { return 0 }, ledger.Take, ledger.Observe, ledger.Refresh, ledger.Book.Knows, true}
}

// situation is the whole cluster at one time. Books are numbers: 0 is an empty book.
type situation struct {
	books    [bookCount]int16
	replicas [replicas]replica
	log      string         // one letter for each change of a pod, in order
	admitted [podCount]int8 // the tick of the last admission, and 1; 0 for a pod without a request
	now      int8
	changed  int8 // the tick of the first write of the change in place, and 1; 0 for none
	made     bool // the last budget
	violates bool // a request was admitted that a budget had no unit for
}

type replica struct {
	known [bookCount]int16
	seen  int8 // how much of the log the cache shows
	pod   int8 // the pod of the request that is being decided, and 1; 0 for none
}

func (s *situation) key() string {
	b := make([]byte, 0, 40)
	for _, id := range s.books {
		b = binary.LittleEndian.AppendUint16(b, uint16(id))
	}
	one, two := s.replicas[0], s.replicas[1]
	for _, r := range []replica{one, two} {
		for _, id := range r.known {
			b = binary.LittleEndian.AppendUint16(b, uint16(id))
		}
		b = append(b, byte(r.seen), byte(r.pod))
	}
	for _, a := range s.admitted {
		b = append(b, byte(a))
	}
	for _, is := range []bool{s.made, s.violates} {
		b = append(b, 0)
		if is {
			b[len(b)-1] = 1
		}
	}
	return string(append(append(b, byte(s.now), byte(s.changed)), s.log...))
}

// model explores all situations.
type model struct {
	shape
	rules
	ids     map[string]int16
	books   []ledger.Book // by their number
	reached map[string]bool
	queue   []situation
	states  map[string][podCount]podState // by the log
	seen    map[observation]int16         // the book after an observation
	count   struct{ admitted, refused, ended, conflicts int }
}

func newModel(s shape, r rules) *model {
	m := &model{
		shape: s, rules: r, ids: map[string]int16{}, reached: map[string]bool{},
		states: map[string][podCount]podState{}, seen: map[observation]int16{},
	}
	m.id(ledger.Book{})
	return m
}

// id returns the number of a book.
func (m *model) id(b ledger.Book) int16 {
	var key strings.Builder
	fmt.Fprint(&key, b.Seen)
	uids := make([]string, 0, len(b.Entries))
	for uid := range b.Entries {
		uids = append(uids, uid)
	}
	slices.Sort(uids)
	for _, uid := range uids {
		e := b.Entries[uid]
		fmt.Fprint(&key, uid, e.Use, e.Since.Unix(), e.Expires.Unix(), e.Version, e.Generation, e.Restarts, ";")
	}
	if id, ok := m.ids[key.String()]; ok {
		return id
	}
	id := int16(len(m.books))
	m.ids[key.String()], m.books = id, append(m.books, b)
	return id
}

func (m *model) at(now int8) time.Time { return start.Add(time.Duration(now) * tick) }

// of are the budgets that cover a pod.
func (m *model) of(pod int, made bool) (budgets []int) {
	for i, pods := range m.budgets {
		if slices.Contains(pods, pod) && m.exists(i, made) {
			budgets = append(budgets, i)
		}
	}
	return budgets
}

// exists reports whether a budget exists.
func (m *model) exists(budget int, made bool) bool {
	return made || !m.late || budget < len(m.budgets)-1
}

// The log has one letter for a pod that goes down, and one for a pod that comes up. A pod that is
// changed in place has two more: its change is written, after which its container stops some time
// later; and its kubelet writes the status.
func down(pod int) byte    { return byte('0' + pod) }
func up(pod int) byte      { return byte('A' + pod) }
func written(pod int) byte { return byte('a' + pod) }
func touched(pod int) byte { return byte('t' + pod) }

const spoken = 'S' // the kubelet is silent no longer

type podState struct {
	uid       string
	available bool
	doomed    bool // the change is written, and the container runs
	facts     ledger.PodSeen
}

// state is what a part of the log tells about a pod.
func (m *model) state(log string, pod int) podState {
	states, ok := m.states[log]
	if !ok {
		for i := range states {
			states[i] = m.replay(log, i)
		}
		m.states[log] = states
	}
	return states[pod]
}

// replay finds the state of a pod. A pod that was deleted comes back with another UID.
func (m *model) replay(log string, pod int) podState {
	life, p := 0, podState{available: true, facts: ledger.PodSeen{Version: "100", Generation: 1, Grace: tick}}
	p.facts.Silent = m.silent && pod == m.changed
	for i := range len(log) {
		switch log[i] {
		case down(pod):
			p.available, p.doomed, p.facts.Going = false, false, pod != m.changed
		case up(pod):
			p.available, p.facts.Going = true, false
			if p.facts.Restarts++; pod != m.changed {
				life++
			}
		case written(pod):
			p.doomed = true
			p.facts.Generation++
		case touched(pod):
		case spoken:
			p.facts.Silent = false
			continue
		default:
			continue
		}
		p.facts.Version = version(i + 1)
	}
	if m.old {
		p.facts.Generation = 0
	}
	p.uid = fmt.Sprint(pod, ".", life)
	return p
}

func version(events int) string { return fmt.Sprint(100 + events) }

// view is what a replica sees of the pods, and of the entries of a book.
func (m *model) view(s *situation, r int, b ledger.Book) ledger.Seen {
	seen := ledger.Seen{Version: version(int(s.replicas[r].seen)), Pods: map[string]ledger.PodSeen{}}
	for pod := range podCount {
		p := m.state(s.log[:s.replicas[r].seen], pod)
		if p.available || pod == m.changed || pod == 0 { // pod 0 is seen terminating, the others are just gone
			seen.Pods[p.uid] = p.facts
		}
	}
	for uid := range b.Entries {
		if _, found := seen.Pods[uid]; !found {
			seen.Pods[uid] = ledger.PodSeen{Gone: true}
		}
	}
	return seen
}

// explore tries all moves from all situations, and returns the first violation.
func (m *model) explore(most int) error {
	m.add(situation{})
	for i := 0; i < len(m.queue); i++ {
		s := m.queue[i]
		if err := m.check(&s); err != nil {
			return err
		}
		m.pods(s)
		m.time(s)
		m.budget(s)
		for r := range replicas {
			m.cache(s, r)
			m.observing(s, r)
			m.requests(s, r)
		}
		if len(m.queue) > most {
			return fmt.Errorf("more than %d situations", most)
		}
	}
	return nil
}

func (m *model) add(s situation) {
	if one, two := s.replicas[0], s.replicas[1]; one.less(two) { // replicas have no names
		s.replicas = [replicas]replica{two, one}
	}
	if key := s.key(); !m.reached[key] {
		m.reached[key] = true
		m.queue = append(m.queue, s)
	}
}

func (r replica) less(o replica) bool {
	switch {
	case r.known != o.known:
		return slices.Compare(r.known[:], o.known[:]) < 0
	case r.seen != o.seen:
		return r.seen < o.seen
	}
	return r.pod < o.pod
}

// check finds violations: a budget with more units in use than it has, or an admitted request
// whose entry is lost.
func (m *model) check(s *situation) error {
	if s.violates {
		return fmt.Errorf("a budget has 1 unit, and 2 are in use: %s", m.describe(s))
	}
	for pod := range podCount {
		p := m.state(s.log, pod)
		has := slices.ContainsFunc(s.books[:], func(id int16) bool { return m.books[id].Entries[p.uid].UID != "" })
		if (s.admitted[pod] != 0 || p.doomed) && !has {
			return fmt.Errorf("the entry of pod %s is lost: %s", p.uid, m.describe(s))
		}
	}
	return nil
}

// inUse reports whether the unit of a budget is in use for a pod other than the given one.
func (m *model) inUse(s *situation, budget, except int) bool {
	for _, pod := range m.budgets[budget] {
		if p := m.state(s.log, pod); pod != except && (!p.available || p.doomed || s.admitted[pod] != 0) {
			return true
		}
	}
	return false
}

func (m *model) describe(s *situation) string {
	var b strings.Builder
	for _, id := range s.books {
		fmt.Fprintf(&b, "\n  %+v", m.books[id])
	}
	return fmt.Sprintf("pods %q, admitted %v, tick %d, replicas %v%s", s.log, s.admitted, s.now, s.replicas, b.String())
}

var shapes = map[string]shape{
	"two budgets share a pod":            {budgets: [][]int{{0, 1}, {1, 2}}, changed: -1},
	"pods come back":                     {budgets: [][]int{{0, 1}}, changed: -1, returns: true},
	"a pod is changed in place":          {budgets: [][]int{{0, 1}}, changed: 1, returns: true},
	"a change fails":                     {budgets: [][]int{{0, 1}}, changed: 1, touches: true},
	"a change takes long":                {budgets: [][]int{{0, 1}}, changed: 1, ticks: 3},
	"a change without generations":       {budgets: [][]int{{0, 1}}, changed: 1, ticks: 3, old: true},
	"a kubelet is silent":                {budgets: [][]int{{0, 1}}, changed: 1, ticks: 4, silent: true},
	"an old kubelet is silent":           {budgets: [][]int{{0, 1}}, changed: 1, ticks: 4, old: true, silent: true},
	"time passes":                        {budgets: [][]int{{0, 1}}, changed: -1, ticks: 4},
	"two budgets, and time passes":       {budgets: [][]int{{0}, {0, 1}}, changed: -1, ticks: 2},
	"three budgets in a ring":            {budgets: [][]int{{0, 1}, {1, 2}, {2, 0}}, changed: -1},
	"a budget is made while pods go":     {budgets: [][]int{{0}, {0, 1}}, changed: -1, late: true},
	"a budget of more pods is made":      {budgets: [][]int{{0, 2}, {0, 1, 2}}, changed: -1, late: true},
	"three budgets, the middle one last": {budgets: [][]int{{0}, {1}, {0, 1}}, changed: -1},
}

func TestModel(t *testing.T) {
	for name, s := range shapes {
		t.Run(name, func(t *testing.T) {
			m := newModel(s, rightRules())
			began := time.Now()
			if err := m.explore(2_000_000); err != nil {
				t.Error(err)
			}
			t.Logf("%d situations, %d books, %+v, %v", len(m.queue), len(m.books), m.count, time.Since(began))
			if m.count.admitted == 0 || m.count.refused == 0 || m.count.conflicts == 0 {
				t.Errorf("the model does not show what it is about: %+v", m.count)
			}
		})
	}
}
