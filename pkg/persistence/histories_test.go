package persistence_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var histories = flag.Int("histories", 300, "random histories of TestRandomHistories")

// TestRandomHistories runs short histories of four owners on two networks at random, with verbs that fail, folds, and losses of
// power that take commits since the last promise. After each step the state is that of a plain model.
func TestRandomHistories(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	lost, all := 0, *histories
	if testing.Short() {
		all = min(all, 60)
	}
	for n := range all {
		h := &history{r: rand.New(rand.NewPCG(seed, uint64(n))), dir: filepath.Join(t.TempDir(), "state"), up: 1 << 50, is: model{}}
		for range 20 {
			if err := h.step(t); err != nil {
				t.Fatalf("seed %d, history %d: %v\n%v", seed, n, err, h.did)
			}
		}
		if report, err := h.store().Audit(t.Context(), nil); err != nil || len(report.Faults) > 0 {
			t.Fatalf("seed %d, history %d: audit: %v, %v\n%v", seed, n, report.Faults, err, h.did)
		}
		lost += h.lost
		must(t, os.RemoveAll(h.dir))
	}
	if lost < all/10 {
		t.Errorf("losses of power took commits %d times: the test tests little", lost)
	}
}

// model has the address of each attachment and reservation.
type model map[string]netip.Addr

// history is one node.
type history struct {
	r    *rand.Rand
	dir  string
	up   time.Duration
	is   model
	may  []past // what a loss of power may leave: since the last promise
	did  []string
	lost int
}

// past is the journal of an earlier moment, and what it says.
type past struct {
	journal []byte
	was     model
}

func (h *history) store() *persistence.Store {
	h.up++
	return persistence.New(persistence.Options{Dir: h.dir, Uptime: func() time.Duration { return h.up }})
}

func (h *history) step(t *testing.T) error {
	var err error
	switch what := h.r.IntN(10); {
	case what == 0 && len(h.may) > 0:
		h.losePower(t)
	case what == 1 && len(h.may) > 0:
		h.did = append(h.did, "fold")
		if _, _, err = h.store().Compact(t.Context()); err == nil {
			h.may = []past{h.now(t)}
		}
	default:
		err = h.verb(t)
	}
	if err != nil {
		return err
	}
	return h.judge(t)
}

// losePower puts an earlier journal back, and starts the node again.
func (h *history) losePower(t *testing.T) {
	n := h.r.IntN(len(h.may))
	h.did = append(h.did, fmt.Sprintf("power lost, %d commits", len(h.may)-1-n))
	if n < len(h.may)-1 {
		h.lost++
	}
	files{"limpet.journal": h.may[n].journal}.write(t, h.dir)
	h.up, h.is, h.may = h.up/2, maps.Clone(h.may[n].was), h.may[:n+1]
}

func (h *history) now(t *testing.T) past {
	_, journal := journalOf(t, h.dir)
	return past{journal, maps.Clone(h.is)}
}

var errAbandoned = errors.New("abandoned")

// verb changes up to three records in one transaction, which is abandoned now and then, or wants an address that is held.
func (h *history) verb(t *testing.T) error {
	after, promises, want, runs := model(nil), false, error(nil), 0
	err := h.store().Update(t.Context(), func(tx *persistence.Tx) error {
		after, promises, want = maps.Clone(h.is), false, nil
		if runs++; runs == 2 {
			h.may, h.did = nil, append(h.did, "again, with the layout of loans")
		}
		for range 1 + h.r.IntN(3) {
			did, promised, err := h.change(tx, after)
			if want = err; want != nil {
				h.did = append(h.did, did+" refused")
				return want
			}
			h.did, promises = append(h.did, did), promises || promised
		}
		if h.r.IntN(8) == 0 {
			h.did, want = append(h.did, "abandoned"), errAbandoned
		}
		return want
	})
	switch {
	case !errors.Is(err, want) || want != nil && !errors.Is(want, errAbandoned) && !errors.Is(want, reservation.ErrHeld) && !errors.Is(want, reservation.ErrLoan):
		return fmt.Errorf("update: %w, want %w", err, want)
	case want != nil && h.may == nil:
		h.may = []past{h.now(t)}
	case want == nil:
		h.is = after
		if promises {
			h.may = nil
		}
		h.may = append(h.may, h.now(t))
	}
	return nil
}

// change writes or deletes one record.
func (h *history) change(tx *persistence.Tx, after model) (did string, promises bool, err error) {
	network, i := []string{"net", "dmz"}[h.r.IntN(2)], h.r.IntN(4)
	a := attachment(i)
	a.ID.Network, a.Owner.Network, a.Mode, a.Claimed, a.Dropped = network, network, reservation.Preferred, nil, nil
	a.Addresses = []netip.Addr{v4(h.r.IntN(6))}
	if a.Seq, err = tx.NextSeq(); err != nil {
		return "", false, err
	}
	a.Mode = []reservation.Mode{reservation.Preferred, reservation.Preferred, reservation.Required, reservation.Follow}[h.r.IntN(4)]
	r := reserve(a)
	if a.Mode == reservation.Follow {
		a.Guest = h.r.Int64N(2)
		r.Lent, r.Guest = []int64{0, 0, 7}[h.r.IntN(3)], a.Guest
	}
	attached, reserved := "attached "+a.Owner.String()+network, "reserved "+a.Owner.String()+network
	did = fmt.Sprintf("%s %d %s", network, i, a.Addresses)
	switch h.r.IntN(4) {
	case 0:
		delete(after, attached)
		return "detach " + did, false, tx.DeleteAttachment(a.ID)
	case 1:
		delete(after, reserved)
		return "forget " + did, false, tx.TakeReservation(a.Owner)
	case 2:
		after[reserved] = a.Addresses[0]
		return "reserve " + did, true, tx.PutReservation(r)
	}
	after[attached] = a.Addresses[0]
	return "attach " + did, a.Mode.Keeps(), tx.PutAttachment(a)
}

// judge compares the state with the model.
func (h *history) judge(t *testing.T) error {
	found := model{}
	err := h.store().View(t.Context(), func(tx *persistence.Tx) error {
		return tx.EachRecord("", func(r persistence.Record) error {
			if a := r.Attachment; a != nil {
				found["attached "+a.Owner.String()+a.Owner.Network] = a.Addresses[0]
			} else {
				found["reserved "+r.Reservation.Owner.String()+r.Reservation.Owner.Network] = r.Reservation.Addresses[0]
			}
			return nil
		})
	})
	if err == nil && !maps.Equal(found, h.is) {
		err = fmt.Errorf("found %v, want %v", found, h.is)
	}
	return err
}
