package loan_test

import (
	"fmt"
	"slices"

	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// A scene is one owner, its pod, the nodes and the controller. Its methods are the events that can happen in it. It can be
// compared, and a copy is another scene.
type scene struct {
	object  loan.Loan
	exists  bool
	version int // of the object

	nodes [size]machine
	// seen is the object in the cache of the controller, and next its next write, compared with the version it was made for.
	seen, next view
	nextVerb   loan.Verb

	pod   pod
	lives int8
	over  bool // the owner does not return
	taken int8 // those of the two addresses that another pod has
	ends  bool // its namespace is deleted
	lost  bool // the address went to another pod before anybody lent it, or only a person knows where it is
	epoch int64
	home  int8 // the node that is recorded for the owner
	// segment tells that the nodes share one, where no Node says whose a range is.
	segment bool
}

const size = 3

// both are the two addresses of the owner, of two families. A set of them is a sum of bits.
const both int8 = 1 + 2

var names = [size]string{"n0", "n1", "n2"}

func indexOf(name string) int8 {
	for i, n := range names {
		if n == name {
			return int8(i)
		}
	}
	return none
}

const none int8 = -1

// view is an object as an agent or the controller has read it.
type view struct {
	object  loan.Loan
	exists  bool
	version int
}

// machine is a node with its agent.
type machine struct {
	owns     int8 // the addresses that the ranges of the node have
	fresh    int8 // those of them whose loans the agent has not read since it got the range
	off      bool // it has no power
	cut      bool // it does not reach the API server
	full     bool // it cannot take a pod
	dead     bool // it is proven dead: its Node object is gone, or a person said so
	gone     bool // it does not come back
	presumed bool // a person said that it is dead, and its agent has not heard of it
	local    int8 // the life that the kubelet knows; 0 for none
	record   loan.Record
	attached int8 // the life that has the address; 0 for none
	reserved bool // the addresses are kept for the owner
	seen     view
	// step is the next write of the agent, for the version it was made for.
	step loan.Step
	at   int
}

// pod is the pod of the owner that the API server has.
type pod struct {
	life  int8 // 0 for none
	gated bool
	node  int8
	prefs int8 // the nominated node
	ends  bool // it terminates
}

// start is a scene where the pod runs at home.
func start() scene {
	w := scene{lives: 1, pod: pod{life: 1, node: 0, prefs: none}}
	w.nodes[0] = machine{owns: both, attached: 1, record: loan.Record{Confirmed: true}}
	w.nodes[1].record.Confirmed, w.nodes[2].record.Confirmed = true, true
	return w
}

func (w *scene) now() view { return view{w.object, w.exists, w.version} }

func (v view) loan() *loan.Loan {
	if !v.exists {
		return nil
	}
	l := v.object
	return &l
}

// owner is the node whose ranges have an address, though it may be gone.
func (w *scene) owner(addr int8) int8 {
	return int8(slices.IndexFunc(w.nodes[:], func(n machine) bool { return n.owns&addr != 0 }))
}

// owners says what the Nodes of the API server say: which one has the addresses, or one of them, and whether all.
func (w *scene) owners() (owner string, whole bool) {
	if w.segment {
		if w.seen.exists {
			owner = w.seen.object.Home
		} else {
			owner = names[w.home]
		}
		if beside := w.beside(); beside != none {
			owner = names[beside]
		}
		if w.nodes[indexOf(owner)].gone {
			owner = ""
		}
		return owner, owner != ""
	}
	for _, addr := range []int8{1, 2} {
		n := w.owner(addr)
		if dead := w.nodes[n].dead; !w.nodes[n].gone && (owner == "" || w.nodes[indexOf(owner)].dead && !dead) {
			owner, whole = names[n], w.nodes[n].owns == both
		}
	}
	return owner, whole
}

// beside is the node that shows the addresses of a lost loan, and has them in its ranges, but for the home that the loan names.
func (w *scene) beside() int8 {
	for i, n := range w.nodes {
		if w.segment && w.seen.object.Borrower == loan.Unknown && names[i] != w.seen.object.Home && !n.gone && n.owns == both &&
			(n.reserved || n.attached != 0 || n.record.Lent != 0) {
			return int8(i)
		}
	}
	return none
}

// foreign reports whether a Node exists that has none of the addresses.
func (w *scene) foreign(name string) bool {
	n := indexOf(name)
	return !w.segment && n != none && !w.nodes[n].gone && w.nodes[n].owns == 0
}

// bound reports whether the pod of the API server is bound to a node.
func (w *scene) bound(n int) bool { return w.pod.life != 0 && !w.pod.gated && w.pod.node == int8(n) }

// plan makes the next step of an agent, from its cache or by a live read.
func (w *scene) plan(m mistake, n int, live bool) {
	node := &w.nodes[n]
	if live {
		node.seen = w.now()
	}
	in := loan.NodeInput{
		Node: names[n], Owns: node.owns != 0, Whole: node.owns == both, Foreign: w.foreign(node.seen.object.Home), Loan: node.seen.loan(), Live: live || m == staleReads, Record: node.record,
		Own: node.owns == both && node.reserved || node.attached != 0, Attached: node.attached != 0, Taken: w.taken&node.owns != 0, Bound: w.bound(n) && !w.pod.ends,
	}
	if w.segment && in.Loan != nil && in.Loan.Home != in.Node {
		in.Whole, in.Foreign = m == wholeRange, in.Owns
	}
	node.step, node.at = m.plan(in), node.seen.version
	node.step.Reason = ""
	if live && node.step.Verb == loan.Nothing {
		node.presumed, node.fresh = node.presumed && node.attached != 0, 0
	}
}

// do carries out the next step of an agent. The transaction that writes a Record compares what the plan relies on.
func (w *scene) do(m mistake, n int) {
	node := &w.nodes[n]
	s := node.step
	node.step = loan.Step{}
	switch s.Verb {
	case loan.Nothing, loan.Read:
	case loan.Write:
		holds := s.Reserve || s.Record.Lent != 0 || s.Record.Guest != 0
		if m != blindWrites && (s.Unattached && node.attached != 0 || holds && w.taken&node.owns != 0) {
			return
		}
		if s.Record.Lent != 0 {
			node.reserved = false
		}
		if s.Reserve && node.attached == 0 {
			node.reserved, w.home = true, int8(n) // which the agent shows as an IPReservation
		}
		node.record = s.Record
		node.presumed = node.presumed && node.attached != 0
	case loan.Put, loan.Remove:
		if node.cut {
			return
		}
		w.lost = w.lost || s.Verb == loan.Put && s.Loan.Free && !node.seen.object.Free
		w.put(m, s.Verb, s.Loan, node.at)
	}
}

// put writes the object if it has the version.
func (w *scene) put(m mistake, verb loan.Verb, l loan.Loan, version int) {
	if version != w.version && m != noCompare || w.ends && !w.exists { // nothing is created in such a namespace
		return
	}
	w.version++
	w.object, w.exists = l, verb == loan.Put
	if !w.exists {
		w.object = loan.Loan{}
	}
}

// place makes the next step of the controller from its cache, and opens the gate where it says so.
func (w *scene) place(m mistake) {
	in := loan.PlaceInput{
		Loan: w.seen.loan(), Home: names[w.home], Over: (w.over || w.ends) && w.pod.life == 0, Epoch: w.epoch + 1,
		Takes: func(n string) bool { return n != loan.Unknown && w.takes(indexOf(n)) },
		Dead: func(n string) bool {
			return n != loan.Unknown && (w.nodes[indexOf(n)].dead || m == silenceIsDeath && w.nodes[indexOf(n)].cut)
		},
		Waits: w.pod.life != 0 && w.pod.gated && !w.pod.ends,
	}
	in.Foreign = w.foreign(w.seen.object.Home) || w.beside() != none
	in.Owner, in.Whole = w.owners()
	in.Kept = slices.ContainsFunc(w.nodes[:], func(n machine) bool {
		shows := n.reserved || n.attached != 0 || n.record.Lent != 0 || n.record.Guest != 0
		return !n.gone && shows && (m == everyKeeper || w.segment || n.owns != 0)
	})
	if w.pod.life != 0 && !w.pod.gated && !w.pod.ends && w.pod.node != none {
		in.Bound, in.Shown = names[w.pod.node], w.nodes[w.pod.node].attached == w.pod.life
	}
	p := m.place(in)
	beside := func(n machine) bool { return w.segment && !n.gone && n.owns != 0 && n.owns != w.nodes[w.home].owns }
	if p.Begins(in.Loan) && slices.ContainsFunc(w.nodes[:], beside) { // as the pools show; a person must say whose it is
		p, w.lost = loan.Placing{}, true
	}
	w.next, w.nextVerb = view{object: p.Loan, version: w.seen.version}, p.Verb
	if p.Verb != loan.Put && p.Verb != loan.Remove {
		w.next = view{}
	}
	if p.Open && w.pod.gated {
		w.pod.gated, w.pod.prefs = false, w.home // as pin nominates it
		if in.Loan != nil {
			w.pod.prefs = indexOf(in.Loan.Borrower)
		}
	}
}

func (w *scene) takes(n int8) bool {
	return !w.nodes[n].full && !w.nodes[n].dead && !w.nodes[n].cut && !w.nodes[n].off
}

// add is an ADD for the life that the kubelet of a node knows.
func (w *scene) add(m mistake, n int) {
	node := &w.nodes[n]
	if node.attached != 0 {
		return // the predecessor still has its network namespace
	}
	own := node.owns == both && node.reserved || node.record.Guest != 0
	if m.add(reservation.Following{Lent: node.record.Lent != 0, Own: own, Confirmed: node.record.Confirmed, Elsewhere: true}) == reservation.Claim {
		node.attached, node.reserved = node.local, false
		if node.owns == both && node.record.Guest == 0 {
			w.home = int8(n)
		}
	}
}

// del ends the life that a node has.
func (w *scene) del(n int) {
	node := &w.nodes[n]
	node.reserved = node.owns == both && node.record.Lent == 0 && node.record.Guest == 0
	node.attached = 0
}

// holders are the nodes with a pod that has the address, but for those on a node that a person declared dead.
func (w *scene) holders() (count int) {
	for _, n := range w.nodes {
		if n.attached != 0 && !n.presumed && !n.dead {
			count++
		}
	}
	if w.taken != 0 {
		count++
	}
	return count
}

// key is the scene without what makes no difference: only the order of epochs and versions matters.
func (w scene) key() scene {
	epochs := w.epochs()
	rank := func(e *int64) {
		if *e == 0 {
			return
		}
		lower := int64(1)
		for _, o := range epochs {
			if o != 0 && o < *e {
				lower++
			}
		}
		*e = lower
	}
	fresh := func(version *int) {
		if *version == w.version {
			*version = 0
		} else {
			*version = 1
		}
	}
	for i := range w.nodes {
		n := &w.nodes[i]
		rank(&n.record.Lent)
		rank(&n.record.Guest)
		rank(&n.seen.object.Epoch)
		rank(&n.step.Record.Lent)
		rank(&n.step.Record.Guest)
		rank(&n.step.Loan.Epoch)
		fresh(&n.seen.version)
		fresh(&n.at)
	}
	rank(&w.seen.object.Epoch)
	rank(&w.next.object.Epoch)
	fresh(&w.seen.version)
	fresh(&w.next.version)
	rank(&w.object.Epoch)
	w.version, w.epoch = 0, 0
	return w
}

// epochs are all different epochs of a scene.
func (w *scene) epochs() []int64 {
	all := []int64{w.seen.object.Epoch, w.next.object.Epoch, w.object.Epoch}
	for i := range w.nodes {
		n := &w.nodes[i]
		all = append(all, n.record.Lent, n.record.Guest, n.seen.object.Epoch, n.step.Record.Lent, n.step.Record.Guest, n.step.Loan.Epoch)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (w scene) String() string {
	s := fmt.Sprintf("loan %v %+v, pod %+v, over %v, taken %d", w.exists, w.object, w.pod, w.over, w.taken)
	for i, n := range w.nodes {
		s += fmt.Sprintf("\n  %s %+v", names[i], n)
	}
	return s + fmt.Sprintf("\n  controller %+v then %v %+v", w.seen, w.nextVerb, w.next)
}
