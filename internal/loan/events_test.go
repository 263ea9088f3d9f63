package loan_test

import (
	"slices"
	"strings"

	"github.com/limpet-io/limpet/internal/loan"
)

// event is something that can happen in a scene. It reports whether it can happen now. Harm is rarer than work.
type event struct {
	name string
	run  func(w *scene, m mistake) bool
	rare int
	// parts is true of what tells one of the two addresses from the other.
	parts bool
}

// rarely makes an event happen once in n times that it is tried.
func rarely(n int, e event) event {
	e.rare = n
	return e
}

// events are all events of a scene.
func events() []event {
	all := []event{
		rarely(5, event{name: "the pod is deleted", run: func(w *scene, _ mistake) bool { return w.deletePod(false) }}),
		rarely(8, event{name: "the pod is deleted by force", run: func(w *scene, _ mistake) bool { return w.deletePod(true) }}),
		{name: "the pod has gone", run: func(w *scene, _ mistake) bool { return w.finishPod() }},
		{name: "the pod is created again", run: func(w *scene, _ mistake) bool { return w.createPod() }},
		{name: "the controller works", run: func(w *scene, m mistake) bool {
			w.seen = w.now()
			w.place(m)
			w.write(m)
			return true
		}},
		rarely(3, event{name: "the controller reads", run: func(w *scene, _ mistake) bool { w.seen = w.now(); return true }}),
		rarely(3, event{name: "the controller plans", run: func(w *scene, m mistake) bool { w.place(m); return true }}),
		{name: "the controller writes", run: func(w *scene, m mistake) bool { return w.write(m) }},
		rarely(200, event{name: "the owner does not return, or is made again", run: func(w *scene, _ mistake) bool {
			w.lost = w.lost || w.over // its address may be free already
			w.over = !w.over
			return true
		}}),
		rarely(200, event{name: "the namespace is deleted", run: func(w *scene, m mistake) bool {
			if w.ends = true; m == noFinalizer {
				w.put(noCompare, loan.Remove, loan.Loan{}, 0)
			}
			return true
		}}),
		rarely(5, event{name: "another pod takes the first address", run: func(w *scene, _ mistake) bool { return w.take(1) }}),
		rarely(5, event{name: "another pod takes the second address", run: func(w *scene, _ mistake) bool { return w.take(2) }, parts: true}),
		rarely(200, event{name: "all loans are lost with their kind", run: func(w *scene, _ mistake) bool {
			if home := w.nodes[w.owner(1)]; home.dead || home.gone { // it puts none back
				return false
			}
			w.lost = w.lost || w.exists
			w.put(noCompare, loan.Remove, loan.Loan{}, 0)
			return true
		}}),
		rarely(100, event{name: "a stolen token puts a loan", run: func(w *scene, _ mistake) bool { return w.forge() }}),
	}
	for n := range size - 1 {
		for addrs, name := range map[int8]string{1: "the first range", 2: "the second range", both: "both ranges"} {
			all = append(all, event{name: names[n+1] + ": gets " + name + " of a node that is gone", run: func(w *scene, _ mistake) bool { return w.handOver(n+1, addrs) }, parts: addrs != both || n == 0})
		}
	}
	slices.SortFunc(all, func(a, b event) int { return strings.Compare(a.name, b.name) })
	for n := range size {
		all = append(all, ofNode(n)...)
	}
	return all
}

func ofNode(n int) []event {
	on := func(rare int, name string, run func(w *scene, node *machine, m mistake)) event {
		return event{names[n] + ": " + name, func(w *scene, m mistake) bool {
			if w.nodes[n].gone {
				return false
			}
			run(w, &w.nodes[n], m)
			return true
		}, rare, false}
	}
	return []event{
		{names[n] + ": the node is made again, with other ranges", func(w *scene, _ mistake) bool {
			node := &w.nodes[n]
			again := !w.segment && node.gone && node.owns == 0
			if again { // what it had not lent is another node's
				node.gone, node.dead, node.off, node.cut, w.lost = false, false, false, false, w.lost || node.reserved
			}
			return again
		}, 5, false},
		on(1, "the agent works", func(w *scene, node *machine, m mistake) {
			if !node.off && !node.cut {
				w.plan(m, n, true)
				w.do(m, n)
			}
		}),
		on(5, "the agent plans by its cache", func(w *scene, node *machine, m mistake) {
			if !node.off {
				w.plan(m, n, false)
			}
		}),
		on(4, "the agent reads and plans", func(w *scene, node *machine, m mistake) {
			if !node.off && !node.cut {
				w.plan(m, n, true)
			}
		}),
		on(1, "the agent does its step", func(w *scene, _ *machine, m mistake) { w.do(m, n) }),
		on(10, "the agent crashes", func(_ *scene, node *machine, _ mistake) { node.step = loan.Step{} }),
		on(1, "the kubelet looks", func(w *scene, node *machine, _ mistake) {
			if !node.off && !node.cut {
				w.sync(n)
			}
		}),
		on(1, "a sandbox starts", func(w *scene, node *machine, m mistake) {
			if !node.off && node.local != 0 && node.attached == 0 {
				w.add(m, n)
			}
		}),
		on(30, "a sandbox ends", func(w *scene, node *machine, _ mistake) {
			if !node.off && node.attached != 0 {
				w.del(n)
			}
		}),
		on(8, "the node is drained or uncordoned", func(_ *scene, node *machine, _ mistake) { node.full = !node.full }),
		on(25, "the node is cut off", func(_ *scene, node *machine, _ mistake) { node.cut = true }),
		on(5, "the node is reached again", func(_ *scene, node *machine, _ mistake) { node.cut = false }),
		on(25, "the node loses power", func(w *scene, _ *machine, m mistake) { w.powerOff(m, n) }),
		on(5, "the node starts", func(_ *scene, node *machine, _ mistake) { node.off = false }),
		on(10, "the node is said to be dead", func(w *scene, node *machine, _ mistake) {
			if !node.dead && (node.cut || node.off) {
				node.dead, node.presumed, w.taken = true, !node.off, w.taken&^node.owns
			}
		}),
		on(3, "the node is said to be back", func(_ *scene, node *machine, _ mistake) {
			node.dead = node.dead && (node.off || node.cut)
		}),
		on(10, "the node is gone for good", func(_ *scene, node *machine, _ mistake) { node.gone = node.off && node.dead }),
	}
}

func (w *scene) deletePod(force bool) bool {
	if w.pod.life == 0 || w.pod.ends && !force {
		return false
	}
	if force || w.pod.gated || w.pod.node == none {
		w.pod = pod{node: none, prefs: none}
	} else {
		w.pod.ends = true
	}
	return true
}

// finishPod removes a pod whose node says that it has ended, or is proven dead.
func (w *scene) finishPod() bool {
	if !w.pod.ends {
		return false
	}
	if n := w.nodes[w.pod.node]; !n.dead && (n.cut || n.off || n.attached != 0 || n.local == w.pod.life) {
		return false
	}
	w.pod = pod{node: none, prefs: none}
	return true
}

func (w *scene) createPod() bool {
	if w.pod.life != 0 || w.over || w.ends || w.lives > 6 {
		return false
	}
	w.lives++
	w.pod = pod{life: w.lives, gated: true, node: none, prefs: none}
	return true
}

// schedule binds the pod to a node.
func (w *scene) schedule(n int8) bool {
	if w.pod.life == 0 || w.pod.gated || w.pod.ends || w.pod.node != none || !w.takes(n) {
		return false
	}
	w.pod.node = n
	return true
}

func (w *scene) write(m mistake) bool {
	verb := w.nextVerb
	if verb != loan.Put && verb != loan.Remove {
		return false
	}
	if w.next.object.Epoch > w.epoch {
		w.epoch = w.next.object.Epoch
	}
	w.put(m, verb, w.next.object, w.next.version)
	w.next, w.nextVerb = view{}, loan.Nothing
	return true
}

// take gives an address, where it is free, to another pod of the node that owns it, or ends that pod.
func (w *scene) take(addr int8) bool {
	if w.taken&addr != 0 {
		w.taken &^= addr
		return true
	}
	h := &w.nodes[w.owner(addr)]
	if h.off || h.dead || h.presumed || h.reserved || h.attached != 0 || h.record.Lent != 0 || h.record.Guest != 0 || !h.record.Confirmed || h.fresh&addr != 0 {
		return false
	}
	w.taken, w.lost = w.taken|addr, true
	return true
}

// forge puts the loan that the policy lets a stolen token of the last node put.
func (w *scene) forge() bool {
	last := &w.nodes[size-1]
	if w.exists || last.owns != 0 || last.gone {
		return false
	}
	w.epoch++
	w.put(noCompare, loan.Put, loan.Loan{Home: names[size-1], Borrower: loan.Unknown, Phase: loan.Lent, Epoch: w.epoch}, 0)
	return true
}

// handOver gives ranges of a node that is gone to another one: a new one, if it has nothing to do with the owner yet. Who
// deletes all loans while their home is gone must let no node have its range: only a guest knows then, and no program asks it.
func (w *scene) handOver(n int, addrs int8) bool {
	from, to := &w.nodes[0], &w.nodes[n]
	unknown := !w.exists && slices.ContainsFunc(w.nodes[:], func(n machine) bool { return n.record.Guest != 0 || n.step.Record.Guest != 0 })
	if !from.gone || from.owns&addrs != addrs || to.gone || unknown {
		return false
	}
	used := to.attached != 0 || to.local != 0 || to.owns != 0 || to.record.Guest != 0 || to.step.Verb != loan.Nothing
	if !used && w.object.Borrower != names[n] && !w.bound(n) {
		*to = machine{full: to.full, dead: to.dead, off: to.off, cut: to.cut}
	}
	from.owns &^= addrs
	to.owns |= addrs
	to.fresh |= addrs
	return true
}

// sync makes the kubelet of a node follow the API server.
func (w *scene) sync(n int) {
	node := &w.nodes[n]
	node.local = 0
	if w.bound(n) && !w.pod.ends {
		node.local = w.pod.life
	}
	if node.attached != 0 && node.attached != node.local {
		w.del(n)
	}
}

// powerOff ends all that runs on a node. What its state file says stays.
func (w *scene) powerOff(m mistake, n int) {
	node := &w.nodes[n]
	if node.off {
		return
	}
	if node.attached != 0 {
		w.del(n)
	}
	w.taken &^= node.owns
	node.off, node.local, node.step, node.presumed = true, 0, loan.Step{}, false
	node.record.Confirmed = m == trustedStarts
}
