package ledger_test

import (
	"slices"
	"strings"

	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// pods are the moves of pods: an admitted request is written, a pod comes back.
func (m *model) pods(s situation) {
	for pod := range podCount {
		p := m.state(s.log, pod)
		next := s
		switch {
		case pod == m.changed && p.available:
			m.change(s, pod, p)
			continue
		case p.available && s.admitted[pod] != 0:
			next.admitted[pod] = 0
			next.log += string(down(pod))
		case !p.available && m.returns && strings.Count(s.log, string(up(pod))) == 0:
			next.log += string(up(pod))
		default:
			continue
		}
		m.add(next)
	}
}

// change are the moves of a pod that is changed in place and runs. A request is written onto the
// version that was judged. If the kubelet has written the status meanwhile, the request fails, or the
// API server asks about it once more.
func (m *model) change(s situation, pod int, p podState) {
	if s.admitted[pod] != 0 && strings.Count(s.log, string(written(pod))) == 0 {
		next := s
		next.admitted[pod] = 0
		next.log += string(written(pod))
		if next.changed == 0 {
			next.changed = s.now + 1
		}
		m.add(next)
	}
	if s.admitted[pod] != 0 && m.touches && !strings.Contains(s.log, string(touched(pod))) && !p.doomed {
		next := s
		next.admitted[pod] = 0
		next.log += string(touched(pod))
		m.add(next)
	}
	if p.doomed && p.facts.Silent && s.now > 2 {
		next := s
		next.log += string(spoken)
		next.changed = s.now + 1
		m.add(next)
	}
	if p.doomed && !p.facts.Silent {
		s.log += string(down(pod))
		m.add(s)
	}
}

// time moves on when the caches are complete: they are behind by less than a tick. A request
// that was not written in time fails.
func (m *model) time(s situation) {
	if s.now == m.ticks || int(s.replicas[0].seen) < len(s.log) || int(s.replicas[1].seen) < len(s.log) {
		return
	}
	if p := m.state(s.log, max(m.changed, 0)); m.changed >= 0 && p.doomed && !p.facts.Silent && s.now >= s.changed {
		return // a kubelet stops a container within its grace period, of one tick
	}
	s.now++
	for pod := range podCount {
		if s.admitted[pod] != 0 && s.now-(s.admitted[pod]-1) >= writeTime {
			s.admitted[pod] = 0
		}
	}
	m.add(s)
}

// budget makes the last budget. The caches know all books by then.
func (m *model) budget(s situation) {
	if m.late && !s.made && s.replicas[0].known == s.books && s.replicas[1].known == s.books {
		s.made = true
		m.add(s)
	}
}

// cache is what a replica may learn at any time: the next change of a pod, or the books. A
// replica may also end in the middle of what it does.
func (m *model) cache(s situation, r int) {
	if int(s.replicas[r].seen) < len(s.log) {
		next := s
		next.replicas[r].seen++
		m.add(next)
	}
	if s.replicas[r].known != s.books {
		next := s
		next.replicas[r].known = s.books
		m.add(next)
	}
	if s.replicas[r].pod != 0 {
		s.replicas[r].pod = 0
		m.add(s)
	}
}

// observation is a book that is observed, and what the replica has seen of the pods.
type observation struct {
	book int16
	log  string
	now  int8
}

// observing removes the entries that have ended from a book. The replica has just read it.
func (m *model) observing(s situation, r int) {
	for i := range s.books {
		o := observation{s.books[i], s.log[:s.replicas[r].seen], s.now}
		id, ok := m.seen[o]
		if !ok {
			id = o.book
			seen := m.view(&s, r, m.books[o.book])
			book, fresh := m.refresh(m.books[o.book], seen, m.at(s.now))
			if book, ended := m.observe(book, seen, m.at(s.now)); fresh || len(ended) > 0 {
				id = m.id(book)
			}
			m.seen[o] = id
		}
		if id == s.books[i] {
			continue
		}
		m.count.ended++
		next := s
		next.books[i] = id
		next.replicas[r].known[i] = next.books[i]
		m.add(next)
	}
}

// requests are the moves of a replica that is asked for a pod: it begins, and decides.
func (m *model) requests(s situation, r int) {
	if s.replicas[r].pod != 0 {
		m.add(m.step(s, r, int(s.replicas[r].pod-1)))
		return
	}
	for pod := range podCount {
		if m.state(s.log, pod).available && len(m.of(pod, s.made)) > 0 {
			next := s
			next.replicas[r].pod = int8(pod + 1)
			m.add(next)
		}
	}
}

// step decides about a request, by what the replica knows of the book.
func (m *model) step(s situation, r, pod int) situation {
	at := m.book(m.of(pod, s.made))
	if m.cas && s.replicas[r].known[at] != s.books[at] { // a conflict: the replica reads the book
		m.count.conflicts++
		s.replicas[r].known[at] = s.books[at]
		return s
	}
	return m.decide(s, r, pod, at)
}

// decide admits a request when each budget of the pod has a unit left, by what the replica knows.
func (m *model) decide(s situation, r, pod, at int) situation {
	s.replicas[r].pod = 0
	p := m.state(s.log, pod)
	book := m.books[s.replicas[r].known[at]]
	_, again := book.Entries[p.uid]
	if !p.available || !m.knows(book, version(int(s.replicas[r].seen))) || !again && !m.unitsLeft(&s, r, pod, book) {
		m.count.refused++
		return s
	}
	book, _ = m.take(book, ledger.Entry{
		UID: p.uid, Use: m.use(pod), Since: m.at(s.now), Expires: m.at(s.now).Add(ledger.Bound),
		Version: p.facts.Version, Generation: p.facts.Generation, Restarts: p.facts.Restarts,
	})
	m.count.admitted++
	for i, pods := range m.budgets {
		s.violates = s.violates || slices.Contains(pods, pod) && m.exists(i, s.made) && m.inUse(&s, i, pod)
	}
	s.admitted[pod] = s.now + 1
	s.books[at] = m.id(book)
	s.replicas[r].known[at] = s.books[at]
	return s
}

func (m *model) use(pod int) ledger.Use {
	if pod == m.changed {
		return ledger.Changed
	}
	return ledger.Gone
}

func (m *model) unitsLeft(s *situation, r, asked int, book ledger.Book) bool {
	for i, pods := range m.budgets {
		if !slices.Contains(pods, asked) || !m.exists(i, s.made) {
			continue
		}
		for _, pod := range pods {
			p := m.state(s.log[:s.replicas[r].seen], pod)
			if _, taken := book.Entries[p.uid]; pod != asked && (!p.available || taken) {
				return false
			}
		}
	}
	return true
}
