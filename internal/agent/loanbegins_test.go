package agent_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestALoanBeginsNoStateBesideRunningPods removes the state of a node on which pods run. A state with the loan alone would give
// the addresses of the pods to others: the agent waits until a verb has made the state.
func TestALoanBeginsNoStateBesideRunningPods(t *testing.T) {
	ns, n := env.Namespace(t), newOwn(t, "loan-replaced", "10.36.1.0/24", "192.0.2.1")
	if err := os.RemoveAll(n.StateDir); err != nil {
		t.Fatal(err)
	}
	n.Running = func(string) ([]reservation.Attachment, error) { return make([]reservation.Attachment, 1), nil }
	newLoan(t, ns, "web-0", "10.36.1.7", loan.Loan{Home: n.Node, Phase: loan.Lent, Borrower: "elsewhere", Epoch: 7})
	n.start(t)
	n.metricIsAtLeast(t, "limpet_agent_failures_total loans", 1)
	if files, _ := filepath.Glob(filepath.Join(n.StateDir, "limpet.[dj]*")); len(files) > 0 {
		t.Errorf("the agent has begun a state: %v", files)
	}
	n.update(t, func(tx *persistence.Tx) error { return tx.SetConfig("net", nil) }) // as the next verb does
	n.recordIs(t, ns, "web-0", "lent 7")
}

// TestALoanWaitsForTheReservationsOfItsNode has a node without files, of which the API shows a reservation and a loan. The
// record of the loan must not begin the state: nothing would be refilled.
func TestALoanWaitsForTheReservationsOfItsNode(t *testing.T) {
	ns, n := env.Namespace(t), newOwn(t, "loan-again", "10.37.1.0/24", "192.0.2.1")
	n.keep(t, ns, "db-0", "10.37.1.5", func(*reservation.Reservation) {})
	stop := n.startUntil(t)
	n.apiShows(t, map[string]v1alpha1.IPState{"db-0": v1alpha1.IPReserved})
	stop()
	if err := os.RemoveAll(n.StateDir); err != nil {
		t.Fatal(err)
	}
	newLoan(t, ns, "web-0", "10.37.1.7", loan.Loan{Home: n.Node, Phase: loan.Lent, Borrower: "elsewhere", Epoch: 7})
	n.Registry = prometheus.NewRegistry()
	const tries = 6
	var asked atomic.Int64 // at first the API server answers about loans alone
	n.REST.Wrap(func(to http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/ipreservations") && asked.Add(1) <= tries {
				return nil, errors.New("no answer")
			}
			return to.RoundTrip(r)
		})
	})
	n.start(t)
	n.recordIs(t, ns, "web-0", "lent 7")
	n.recordIs(t, ns, "db-0", "own")
}

// TestALoanRefillsAStateThatIsGone removes the files of a node on which no pod runs, while its agent runs: the record of a loan
// begins the state with the reservations that the API shows.
func TestALoanRefillsAStateThatIsGone(t *testing.T) {
	ns, n := env.Namespace(t), newOwn(t, "loan-emptied", "10.39.1.0/24", "192.0.2.1")
	n.keep(t, ns, "db-0", "10.39.1.5", func(*reservation.Reservation) {})
	n.start(t)
	n.apiShows(t, map[string]v1alpha1.IPState{"db-0": v1alpha1.IPReserved})
	files, err := filepath.Glob(filepath.Join(n.StateDir, "limpet.*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("files of the state: %v, %v", files, err)
	}
	for _, f := range files {
		if err := os.RemoveAll(f); err != nil {
			t.Fatal(err)
		}
	}
	newLoan(t, ns, "web-0", "10.39.1.7", loan.Loan{Home: n.Node, Phase: loan.Lent, Borrower: "elsewhere", Epoch: 7})
	n.recordIs(t, ns, "web-0", "lent 7")
	n.recordIs(t, ns, "db-0", "own")
}

// TestANodeIsSetUpThoughItsReservationsCannotBeRead has a new node in a cluster without the kind IPReservation: its pods start.
func TestANodeIsSetUpThoughItsReservationsCannotBeRead(t *testing.T) {
	n := newOwn(t, "loan-unread", "10.38.1.0/24", "192.0.2.1")
	if err := os.RemoveAll(n.StateDir); err != nil {
		t.Fatal(err)
	}
	n.REST.Wrap(func(to http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/ipreservations") {
				return nil, errors.New("no such kind")
			}
			return to.RoundTrip(r)
		})
	})
	a := n.start(t)
	testenv.Eventually(t, a.Ready)
}
