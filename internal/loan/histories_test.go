package loan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// lends is how the address comes from n0 to n1: n0 is drained, and the new pod runs on n1.
const lends = `
n0: the node is drained or uncordoned
the pod is deleted
n0: the kubelet looks
the pod has gone
the pod is created again
the controller works
n0: the agent works
n0: the agent works
the controller works`

const borrows = lends + `
n1: the pod is bound
the controller works
n1: the agent works
n1: the kubelet looks
n1: a sandbox starts`

const toN2 = `
n2: the pod is bound
the controller works
n2: the agent works
n2: the kubelet looks
n2: a sandbox starts`

// wasDead takes the guest from n1, which then comes back, and again lets the next pod start there while n2 has it.
const wasDead = borrows + `
n1: the agent works
n1: the node loses power
n1: the node is said to be dead
the controller works
the pod is deleted by force
the pod is created again
the controller works` + toN2 + `
n1: the node starts
n1: the node is said to be back`

const again = `
the pod is deleted by force
the pod is created again
the controller works
n1: the pod is bound
n1: the kubelet looks
n1: a sandbox starts`

// TestHistories has histories that random walks hardly ever make. Each gives an address two holders with one mistake, and not
// without it.
func TestHistories(t *testing.T) {
	for m, history := range map[mistake]string{
		sameEpochs: borrows + `
all loans are lost with their kind
the pod is deleted by force
the pod is created again
the controller works
n0: the agent works
the controller works` + toN2,
		forgetfulHome: lends + `
n0: the node is drained or uncordoned
n0: the pod is bound
n0: the kubelet looks
the pod is deleted by force
the pod is created again
the controller works
n0: the agent works
n0: a sandbox starts
n0: the node is drained or uncordoned
the controller works
the controller works` + toN2,
		takesBack: `
n0: the node is drained or uncordoned
the pod is deleted by force
the pod is created again
the controller works
n0: the node is drained or uncordoned
the controller works
n0: the node is drained or uncordoned
the controller works
the controller works` + toN2,
		takesOver: borrows + `
n1: the node loses power
n1: the node is said to be dead
the controller works
the pod is deleted by force
the pod is created again
the controller works` + toN2 + `
n1: the node starts
n1: the node is said to be back
n1: the agent works
n1: the agent works
n1: the kubelet looks
the pod is deleted
n2: the kubelet looks
the pod has gone
the pod is created again
n2: the node is drained or uncordoned
the controller works
n2: the agent works
n2: the agent works
the controller works
n1: the pod is bound
n1: the kubelet looks
n1: a sandbox starts
the pod is deleted by force
the pod is created again
n2: the node is drained or uncordoned
the controller works` + toN2,
		lateLend: `
n0: the node is drained or uncordoned
the pod is deleted by force
the pod is created again
the controller works
n0: the agent works
n0: the agent works
the controller works` + toN2,
		trustedStarts: wasDead + again,
		staleReads: wasDead + `
n1: the agent plans by its cache
n1: the agent does its step` + again,
		blindWrites: `
the pod is deleted
n0: the kubelet looks
the pod has gone
the pod is created again
the controller works
n0: the pod is bound
n0: the kubelet looks
the pod is deleted by force
the pod is created again
n0: the node is drained or uncordoned
the controller works
n0: the agent reads and plans
n0: a sandbox starts
n0: the agent does its step
n0: the agent works
the controller works` + toN2,
	} {
		t.Run(string(m), func(t *testing.T) {
			if v := replay(t, m, history); v == "" {
				t.Error("the mistake is not found")
			}
			if v := replay(t, sound, history); v != "" {
				t.Error(v)
			}
		})
	}
}

// replay runs the events of a history, and returns the violation at its end. What cannot happen is left out.
func replay(t *testing.T, m mistake, history string) string {
	t.Helper()
	s := start()
	if err := s.goThrough(m, history); err != nil {
		t.Fatal(err)
	}
	return s.violation()
}

func (w *scene) goThrough(m mistake, history string) error {
	known := all()
	for name := range strings.SplitSeq(strings.TrimSpace(history), "\n") {
		at := slices.IndexFunc(known, func(e event) bool { return e.name == name })
		if at < 0 {
			return fmt.Errorf("no event %q", name)
		}
		known[at].run(w, m)
	}
	return nil
}

// TestDrain is the ordinary history: the address goes along, and comes home.
func TestDrain(t *testing.T) {
	s := start()
	if err := s.goThrough(sound, borrows); err != nil {
		t.Fatal(err)
	}
	if n := s.nodes[1]; n.attached != s.pod.life || s.object.Borrower != "n1" || s.nodes[0].record.Lent == 0 {
		t.Fatalf("%s", s)
	}
	s.deletePod(false)
	if v := s.settle(sound); v != "" || s.nodes[0].attached != s.pod.life || s.exists {
		t.Errorf("%s: %s", v, s)
	}
}
