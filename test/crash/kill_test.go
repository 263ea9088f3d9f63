package crash_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
	"github.com/limpet-io/limpet/test/cniexec"
)

var (
	kills = flag.Int("kills", 250, "processes that are killed")
	pods  = flag.Int("pods", 60, "pods that come and go meanwhile")
)

const (
	// together is the number of processes that run at once.
	together = 4
	// ofVerb, ofFold, ofRecovery and ofCreation are about the numbers of file operations of a verb, of one that folds the
	// journal, or of a compaction, of one that recovers the state, and of one that creates it.
	ofVerb, ofFold, ofRecovery, ofCreation = 4, 36, 50, 70
)

// TestKilledAtAnyInstant kills processes that run at the same time, and checks the state after each round. The verb of
// a killed process is done completely or not at all, the verb of a process that answered is done, and other pods keep
// their addresses. In some rounds the journal is full, so that a fold is killed, or a fold is damaged, so that a recovery is.
// It goes on until enough were killed and some answered, since chance divides them.
func TestKilledAtAnyInstant(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	dir := filepath.Join(t.TempDir(), "state")
	before, err := read(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	lives := make([]int, *pods)
	killed, answered, damages, enough := 0, 0, 0, times(*kills, 100)
	for round := 0; killed < enough || answered < enough/20; round++ {
		if round > enough {
			t.Fatalf("of %d, %d were killed and %d answered", round*together, killed, answered)
		}
		operations := ofVerb
		switch {
		case len(before.attached)+len(before.reserved) == 0:
		case round%20 == 19:
			damage(t, dir, r)
			damages++
			operations = ofRecovery
		case round%4 == 3:
			fillJournal(t, dir)
			operations = ofFold
		}
		attempts := attempt(t, dir, before, lives, r, operations)
		after, err := read(t.Context(), dir, mend)
		for _, a := range attempts {
			if a.answered {
				answered++
			} else {
				killed++
			}
		}
		if err := errors.Join(err, compare(attempts, before, after)); err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, round, err)
		}
		before = after
	}
	t.Logf("killed %d, answered %d, damaged %d times", killed, answered, damages)
}

// compare checks the verbs that were attempted, and that other pods did not change.
func compare(attempts []*try, before, after state) (err error) {
	for _, a := range attempts {
		err = errors.Join(err, a.judge(after))
		delete(before.attached, a.life.id())
		delete(before.reserved, a.life.owner())
		a.forget(&after)
	}
	if diff := cmp.Diff(before.String(), after.String()); err != nil || diff != "" {
		return errors.Join(err, fmt.Errorf("%v\nof others (-before +after):\n%s", attempts, diff))
	}
	for _, a := range attempts {
		a.remember(&after)
	}
	return nil
}

// try is one verb of a process that may be killed.
type try struct {
	verb     string
	life     life
	had      []netip.Addr // addresses of the attachment to end, or of the reservation
	at       instant      // of the kill
	answered bool
	got      []netip.Addr // answer of an ADD

	attached, reserved []netip.Addr // in the state afterwards
}

// attempt runs verbs of different pods at once, and kills the processes at any instant of their first file operations.
func attempt(t *testing.T, dir string, before state, lives []int, r *rand.Rand, operations int) []*try {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "limpet.marker")); err != nil { // no verb has created the state
		operations = ofCreation
	}
	var all []*try
	var wg sync.WaitGroup
	for _, pod := range r.Perm(len(lives))[:together] {
		a := &try{verb: "DEL", life: life{pod, lives[pod]}}
		a.had = before.attached[a.life.id()]
		if a.had == nil {
			lives[pod]++
			a.verb, a.life.n, a.had = "ADD", lives[pod], before.reserved[a.life.owner()]
		}
		c := call(dir, a.verb, a.life, nil)
		if a.verb == "DEL" {
			c = call(dir, a.verb, a.life, a.had)
		}
		a.at = anyInstant(r, operations)
		wg.Go(func() { a.run(t, c, dir) })
		all = append(all, a)
	}
	wg.Wait()
	return all
}

func (a *try) run(t *testing.T, c cniexec.Call, dir string) {
	var stdout, stderr bytes.Buffer
	cmd := c.Command(t.Context())
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_, exit, err := traceUntil(cmd, dir, a.at)
	if err != nil || exit > 0 {
		t.Errorf("%s failed: exit %d, %v: %s%s", a, exit, err, stdout.Bytes(), stderr.Bytes())
	}
	a.answered, a.got = exit == 0, addresses(stdout.Bytes())
}

// judge compares the records of the pod with the allowed ones.
func (a *try) judge(after state) error {
	a.attached, a.reserved = after.attached[a.life.id()], after.reserved[a.life.owner()]
	done := a.attached != nil && a.reserved == nil
	undone := a.attached == nil && slices.Equal(a.reserved, a.had)
	if a.verb == "DEL" {
		done, undone = a.attached == nil && slices.Equal(a.reserved, a.had), slices.Equal(a.attached, a.had) && a.reserved == nil
	}
	switch {
	case !done && !undone:
		return fmt.Errorf("%s is half done: attached %v, reserved %v", a, a.attached, a.reserved)
	case a.answered && !done:
		return fmt.Errorf("%s was answered and is not done", a)
	case done && a.verb == "ADD" && a.had != nil && !slices.Equal(a.attached, a.had):
		return fmt.Errorf("%s gave %v", a, a.attached)
	case a.answered && a.verb == "ADD" && !slices.Equal(a.attached, a.got):
		return fmt.Errorf("%s answered %v and stored %v", a, a.got, a.attached)
	}
	return nil
}

// forget removes the pod from a state, so that the rest can be compared. remember adds the pod again.
func (a *try) forget(s *state) {
	delete(s.attached, a.life.id())
	delete(s.reserved, a.life.owner())
}

func (a *try) remember(s *state) {
	if a.attached != nil {
		s.attached[a.life.id()] = a.attached
	}
	if a.reserved != nil {
		s.reserved[a.life.owner()] = a.reserved
	}
}

func (a *try) String() string {
	return fmt.Sprintf("%s of %s, which had %v, killed %s, answered: %t", a.verb, a.life.container(), a.had, a.at, a.answered)
}

// damage flips a bit of the fold on which the journal stands. Such damage loses no record, because the other fold is whole;
// other tests damage more.
func damage(t *testing.T, dir string, r *rand.Rand) {
	t.Helper()
	if out, err := compact(t.Context(), dir).CombinedOutput(); err != nil { // a fold that is killed leaves the other one torn
		t.Fatalf("compact: %v: %s", err, out)
	}
	path := activeFold(dir)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[r.IntN(16<<10)] ^= 1 << r.IntN(8) // the state has more pages than these
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// mend rebuilds a state as a verb would, but without asking the node.
func mend(left persistence.Salvaged) (reservation.Records, error) {
	plan := reservation.PlanRebuild(reservation.RebuildInput{
		Read: left.Read, Complete: left.Complete, Unreferenced: left.Unreferenced, Alive: func(reservation.Attachment) bool { return false },
	})
	return plan.Records, nil
}
