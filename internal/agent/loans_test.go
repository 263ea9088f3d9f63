package agent_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// newOwn returns a node of own mode with a range, in a network namespace of its own.
func newOwn(t *testing.T, name, cidr, ip string) *node {
	t.Helper()
	inNetNS(t)
	n := newNode(t, name)
	n.OwnNetwork = true
	env.Create(t, peer(name, []string{cidr}, ip))
	return n
}

func followed(ns, pod string) reservation.Owner {
	return reservation.Owner{Network: plan.NetworkName, Namespace: ns, Pod: pod, IfName: "eth0"}
}

// keep stores a reservation of a pod that follows.
func (n *node) keep(t *testing.T, ns, pod, ip string, change func(*reservation.Reservation)) {
	t.Helper()
	n.update(t, func(tx *persistence.Tx) error {
		r := reservation.Reservation{
			Owner: followed(ns, pod), Addresses: []netip.Addr{netip.MustParseAddr(ip)}, Mode: reservation.Follow, Retain: reservation.Forever,
			Deadline: reservation.Deadline{From: n.Now(), For: reservation.Forever}, BootID: n.Now().BootID,
		}
		change(&r)
		return tx.PutReservation(r)
	})
}

// runs makes the reservation of a pod an attachment, as the ADD does which claims it.
func (n *node) runs(t *testing.T, ns, pod string) {
	t.Helper()
	n.update(t, func(tx *persistence.Tx) error {
		r, found, err := tx.Reservation(followed(ns, pod))
		if err != nil || !found {
			return errors.Join(err, errors.New("nothing to claim"))
		}
		return errors.Join(tx.TakeReservation(r.Owner), tx.PutAttachment(reservation.Attachment{
			ID: reservation.AttachmentID{Network: plan.NetworkName, ContainerID: "c", IfName: "eth0"}, Owner: r.Owner, Addresses: r.Addresses,
			Mode: reservation.Follow, Retain: reservation.Forever, AnnotationsSeen: true, Since: n.Now(), Guest: r.Guest, Claimed: &r,
		}))
	})
}

// ends makes the attachment a reservation, as its DEL does.
func (n *node) ends(t *testing.T) {
	t.Helper()
	n.update(t, func(tx *persistence.Tx) error {
		a, found, err := tx.Attachment(reservation.AttachmentID{Network: plan.NetworkName, ContainerID: "c", IfName: "eth0"})
		if err != nil || !found {
			return errors.Join(err, errors.New("no attachment"))
		}
		return errors.Join(tx.DeleteAttachment(a.ID), tx.PutReservation(*a.Claimed))
	})
}

// recordIs waits until the state says this about a pod that follows: "free", or where its address is.
func (n *node) recordIs(t *testing.T, ns, pod, want string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		got := "free"
		err := n.store.View(t.Context(), func(tx *persistence.Tx) error {
			r, found, err := tx.Reservation(followed(ns, pod))
			switch {
			case !found:
			case r.Lent != 0:
				got = fmt.Sprintf("lent %d", r.Lent)
			case r.Guest != 0:
				got = fmt.Sprintf("guest %d", r.Guest)
			default:
				got = "own"
			}
			if found && r.BootID != n.Now().BootID {
				got += ", unconfirmed"
			}
			return err
		})
		if got != want {
			err = errors.Join(err, fmt.Errorf("the record of %s is %q, want %q", n.Node, got, want))
		}
		return err
	})
}

// waitingADD makes the marker of an ADD that waits for the agent, and returns a function that reports whether it may go on.
func (n *node) waitingADD(t *testing.T, ns, pod string) (goesOn func() error) {
	t.Helper()
	path := filepath.Join(n.StateDir, persistence.PendingDir, fmt.Sprintf(".%s:loan.%s.%s:eth0", plan.NetworkName, ns, pod))
	n.write(t, path, "")
	f, err := os.Open(path)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_SH)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return func() error {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("the marker of the ADD: %w", err)
		}
		return nil
	}
}

// newLoan makes a loan of a pod.
func newLoan(t *testing.T, ns, pod, ips string, l loan.Loan) *v1alpha1.BorrowedAddress {
	t.Helper()
	o := &v1alpha1.BorrowedAddress{
		Spec:   v1alpha1.BorrowedAddressSpec{Pod: pod, Interface: "eth0", Network: plan.NetworkName, IPs: ips},
		Status: v1alpha1.BorrowedAddressStatus{Home: l.Home, Borrower: l.Borrower, Phase: v1alpha1.LoanPhase(l.Phase), Epoch: l.Epoch, GiveBack: l.GiveBack, Free: l.Free},
	}
	o.Namespace, o.Name = ns, o.Spec.ObjectName()
	if err := env.Client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // of whatever object has the name then
		_ = env.Client.DeleteAllOf(context.WithoutCancel(t.Context()), &v1alpha1.BorrowedAddress{}, client.InNamespace(ns))
	})
	return o
}

// loanIs waits until a loan is as wanted; nil for none.
func loanIs(t *testing.T, o *v1alpha1.BorrowedAddress, want *loan.Loan) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var now v1alpha1.BorrowedAddress
		err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(o), &now)
		switch {
		case apierrors.IsNotFound(err) && want == nil:
			return nil
		case err != nil:
			return err
		case want == nil || *plan.LoanOf(&now) != *want:
			return fmt.Errorf("the loan is %+v, want %+v", now.Status, want)
		}
		*o = now
		return nil
	})
}

// change writes a loan as the controller does.
func change(t *testing.T, o *v1alpha1.BorrowedAddress, edit func(*v1alpha1.BorrowedAddressStatus)) {
	t.Helper()
	env.Change(t, o, func() { edit(&o.Status) })
}

// TestAnAddressGoesToAnotherNodeAndBack lends an address, with the test as the controller, as kubelet and as plugin of both
// nodes, which have network namespaces of their own.
func TestAnAddressGoesToAnotherNodeAndBack(t *testing.T) {
	ns := env.Namespace(t)
	home := newOwn(t, "loan-home", "10.31.1.0/24", "192.0.2.1")
	atHome := handle(t)
	home.keep(t, ns, "web-0", "10.31.1.7", func(*reservation.Reservation) {})
	home.start(t)
	borrower := newOwn(t, "loan-borrower", "10.31.2.0/24", "192.0.2.2")
	atBorrower := handle(t)
	borrower.start(t)

	o := newLoan(t, ns, "web-0", "10.31.1.7", loan.Loan{Home: home.Node, Phase: loan.Asked, Epoch: 10})
	loanIs(t, o, &loan.Loan{Home: home.Node, Phase: loan.Lent, Epoch: 10})
	home.recordIs(t, ns, "web-0", "lent 10")
	home.metricIs(t, "limpet_agent_loans lent", 1)

	pod := testenv.APod("web-0").In(ns).On(borrower.Node).With(reservation.ModeAnnotation, "follow")
	env.Create(t, pod.Pod)
	goesOn := borrower.waitingADD(t, ns, "web-0")
	change(t, o, func(s *v1alpha1.BorrowedAddressStatus) { s.Borrower, s.Epoch = borrower.Node, 11 })
	borrower.recordIs(t, ns, "web-0", "guest 11")
	testenv.Eventually(t, goesOn)
	borrower.metricIs(t, "limpet_agent_loans guest", 1)
	routesAre(t, atHome, "10.31.1.7/32 via 192.0.2.2", "10.31.2.0/24 via 192.0.2.2", "unreachable 10.31.1.0/24")
	borrower.runs(t, ns, "web-0")

	change(t, o, func(s *v1alpha1.BorrowedAddressStatus) { s.Phase = "Ending" })
	env.Change(t, o, func() { o.Finalizers = []string{loan.Finalizer} })
	routesAre(t, atBorrower, "10.31.1.0/24 via 192.0.2.1", "unreachable 10.31.2.0/24")
	if err := env.Client.Delete(t.Context(), pod.Pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	borrower.metricIs(t, "limpet_agent_loans guest", 1) // its pod has the address
	borrower.ends(t)
	borrower.recordIs(t, ns, "web-0", "free")
	loanIs(t, o, nil)
	home.recordIs(t, ns, "web-0", "own")
	routesAre(t, atHome, "10.31.2.0/24 via 192.0.2.2", "unreachable 10.31.1.0/24")
	home.metricIs(t, "limpet_agent_loans lent", 0)
	home.metricIs(t, "limpet_agent_loan_steps_total remove", 1)
}

// TestARouteToAGuestIsMissing has a node on which another program's route is in the way of the route to a guest, and a guest
// whose node has no address.
func TestARouteToAGuestIsMissing(t *testing.T) {
	const missing = "limpet_agent_loan_routes_missing"
	ns, n := env.Namespace(t), newOwn(t, "loan-blocked", "10.30.1.0/24", "192.0.2.1")
	env.Create(t, peer("loan-blocked-2", []string{"10.30.2.0/24"}, "192.0.2.2"))
	env.Create(t, peer("loan-blocked-3", []string{"10.30.3.0/24"}, "192.0.2.3"))
	addRoute(t, "10.30.2.7/32", "192.0.2.9")
	here := handle(t)
	n.start(t)
	n.metricIs(t, missing, 0)
	newLoan(t, ns, "web-0", "10.30.2.7", loan.Loan{Home: "loan-blocked-2", Borrower: "loan-blocked-3", Phase: loan.Lent, Epoch: 10})
	n.metricIs(t, missing, 1)
	newLoan(t, ns, "web-1", "10.30.2.8", loan.Loan{Home: "loan-blocked-2", Borrower: "nowhere", Phase: loan.Lent, Epoch: 10})
	n.metricIs(t, missing, 2)
	to := net.IPNet{IP: net.IPv4(10, 30, 2, 7), Mask: net.CIDRMask(32, 32)}
	if err := here.RouteDel(&netlink.Route{Dst: &to, Gw: net.IPv4(192, 0, 2, 9)}); err != nil {
		t.Fatal(err)
	}
	n.metricIs(t, missing, 1)
}

// TestHomeLendsAfterTheEndOfTheNamespace, which the IPAM DEL precedes: the old life may have the address until then.
func TestHomeLendsAfterTheEndOfTheNamespace(t *testing.T) {
	ns, home := env.Namespace(t), newOwn(t, "loan-netns", "10.39.1.0/24", "192.0.2.1")
	path := filepath.Join(home.NetNSDir, "alive")
	netns, found := home.NetNS(path)
	if !found {
		t.Fatal("no namespace")
	}
	home.keep(t, ns, "web-0", "10.39.1.7", func(r *reservation.Reservation) { r.NetNS = netns })
	o := newLoan(t, ns, "web-0", "10.39.1.7", loan.Loan{Home: home.Node, Phase: loan.Asked, Epoch: 10})
	home.start(t)
	for _, pod := range []string{"web-1", "web-2"} { // after the second one, the agent has looked at web-0
		newLoan(t, ns, pod, "10.39.1.8"+pod[4:], loan.Loan{Home: home.Node, Phase: loan.Asked, Epoch: 10})
		home.recordIs(t, ns, pod, "lent 10")
	}
	home.recordIs(t, ns, "web-0", "own")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	loanIs(t, o, &loan.Loan{Home: home.Node, Phase: loan.Lent, Epoch: 10})
}

// TestWithoutTheKindNothingIsLent starts a node after a boot where the API server does not serve loans: a pod gets its address,
// unless it is lent.
func TestWithoutTheKindNothingIsLent(t *testing.T) {
	ns, n := env.Namespace(t), newOwn(t, "loan-kind", "10.40.1.0/24", "192.0.2.1")
	n.keep(t, ns, "web-0", "10.40.1.7", func(r *reservation.Reservation) { r.BootID = "before" })
	n.keep(t, ns, "web-1", "10.40.1.8", func(r *reservation.Reservation) { r.BootID, r.Lent = "before", 7 })
	n.REST.Wrap(func(to http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.URL.Path = strings.Replace(r.URL.Path, "/borrowedaddresses", "/unknownkinds", 1)
			return to.RoundTrip(r)
		})
	})
	n.start(t)
	n.recordIs(t, ns, "web-0", "own")
	n.recordIs(t, ns, "web-1", "lent 7, unconfirmed")
}

// TestALostLoanIsPutBack removes a loan that home has made. Only the guest knows where the address is.
func TestALostLoanIsPutBack(t *testing.T) {
	ns, home := env.Namespace(t), newOwn(t, "loan-lost", "10.32.1.0/24", "192.0.2.1")
	home.start(t)
	o := newLoan(t, ns, "web-0", "10.32.1.7", loan.Loan{Home: home.Node, Phase: loan.Asked, Epoch: 10})
	loanIs(t, o, &loan.Loan{Home: home.Node, Phase: loan.Lent, Epoch: 10})
	if err := env.Client.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	loanIs(t, o, &loan.Loan{Home: home.Node, Borrower: loan.Unknown, Phase: loan.Lent, Epoch: 11})
	if o.Spec.IPs != "10.32.1.7" || o.Spec.Pod != "web-0" || o.Status.Since == nil {
		t.Errorf("put back %+v", o)
	}
	home.recordIs(t, ns, "web-0", "lent 10")
}

// TestAfterABootTheAgentAsksFirst starts a node with records of the boot before: of an address that is home, of one that was
// lent while the node was away, of one whose loan was for nothing, and of one that the runtime asks for, though its pod did not
// follow.
func TestAfterABootTheAgentAsksFirst(t *testing.T) {
	ns, home := env.Namespace(t), newOwn(t, "loan-boot", "10.33.1.0/24", "192.0.2.1")
	before := func(r *reservation.Reservation) { r.BootID = "before" }
	home.keep(t, ns, "home-0", "10.33.1.2", before)
	home.keep(t, ns, "away-0", "10.33.1.3", before)
	home.keep(t, ns, "free-0", "10.33.1.4", before)
	home.keep(t, ns, "asks-0", "10.33.1.5", func(r *reservation.Reservation) { r.BootID, r.Mode = "before", reservation.Preferred })
	goesOn := home.waitingADD(t, ns, "asks-0")
	away := newLoan(t, ns, "away-0", "10.33.1.3", loan.Loan{Home: home.Node, Phase: loan.Lent, Borrower: "elsewhere", Epoch: 7})
	gone := newLoan(t, ns, "free-0", "10.33.1.4", loan.Loan{Home: home.Node, Phase: loan.Ended, Epoch: 8, Free: true})
	home.start(t)
	home.recordIs(t, ns, "home-0", "own")
	home.recordIs(t, ns, "asks-0", "own")
	home.recordIs(t, ns, "away-0", "lent 7")
	loanIs(t, gone, nil)
	testenv.Eventually(t, goesOn)
	loanIs(t, away, &loan.Loan{Home: home.Node, Phase: loan.Lent, Borrower: "elsewhere", Epoch: 7})
}

// TestANewNodeOfARangeReadsTheLoans gives a node a range with a loan. The network configuration comes after the record. A
// loan of another name counts for nothing.
func TestANewNodeOfARangeReadsTheLoans(t *testing.T) {
	ns := env.Namespace(t)
	o := newLoan(t, ns, "web-0", "10.34.1.7", loan.Loan{Home: "loan-gone", Phase: loan.Lent, Borrower: "elsewhere", Epoch: 7})
	part := newLoan(t, ns, "web-2", "10.34.9.7,10.34.1.9", loan.Loan{Home: "loan-gone", Phase: loan.Lent, Borrower: "elsewhere", Epoch: 9})
	other := o.DeepCopy()
	other.ObjectMeta, other.Spec.Pod, other.Spec.IPs = metav1.ObjectMeta{Namespace: ns, Name: "mine"}, "web-1", "10.34.1.8"
	env.Create(t, other)
	n := newOwn(t, "loan-new", "10.34.1.0/24", "192.0.2.1")
	var early atomic.Bool // the node was ready without the record
	var read atomic.Int64 // times that the loans were read
	n.REST.Wrap(func(to http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if _, err := os.Stat(filepath.Join(n.ConfDir, "10-limpet.conflist")); strings.HasSuffix(r.URL.Path, "/borrowedaddresses") && r.URL.Query().Get("limit") == "500" {
				early.Store(early.Load() || err == nil && read.Load() == 0)
				read.Add(1)
			}
			return to.RoundTrip(r)
		})
	})
	a := n.start(t)
	testenv.Eventually(t, a.Ready)
	if early.Load() {
		t.Error("the network was set up before the loans were read")
	}
	n.recordIs(t, ns, "web-0", "lent 7")
	n.recordIs(t, ns, "web-1", "free")
	n.recordIs(t, ns, "web-2", "lent 9")
	change(t, part, func(s *v1alpha1.BorrowedAddressStatus) { s.Borrower, s.Epoch = "", 10 })
	change(t, part, func(s *v1alpha1.BorrowedAddressStatus) { s.Phase = "Ended" })
	n.recordIs(t, ns, "web-2", "free")
	for _, cidr := range []string{"10.34.2.0/24", "10.34.1.0/24"} { // another node may have had the first range meanwhile
		before := read.Load()
		if err := env.Client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Node}}); err != nil {
			t.Fatal(err)
		}
		env.Create(t, peer(n.Node, []string{cidr}, "192.0.2.1"))
		testenv.Eventually(t, func() error {
			conf, err := os.ReadFile(filepath.Join(n.ConfDir, "10-limpet.conflist"))
			if err == nil && !strings.Contains(string(conf), cidr) {
				err = fmt.Errorf("the configuration lacks %s: %s", cidr, conf)
			}
			return err
		})
		if read.Load() == before {
			t.Errorf("the node got %s, and nothing read the loans", cidr)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestALoanSurvivesCrashes ends the agent at each request about a loan, before it is sent or before it is answered, and
// starts another one. The end is always the same.
func TestALoanSurvivesCrashes(t *testing.T) {
	inNetNS(t)
	const me, other = "loan-crash", "elsewhere"
	env.Create(t, peer(me, []string{"10.35.1.0/24"}, "192.0.2.1"))
	for name, tc := range map[string]struct {
		ip     string
		record func(*reservation.Reservation) // nil for none
		loan   loan.Loan
		ends   *loan.Loan
		then   string
		asks   int32 // the number of requests about the loan
	}{
		"home lends": {
			"10.35.1.7", func(*reservation.Reservation) {}, loan.Loan{Home: me, Phase: loan.Asked, Epoch: 5}, &loan.Loan{Home: me, Phase: loan.Lent, Epoch: 5}, "lent 5", 2,
		},
		"home takes back": {
			"10.35.1.7", func(r *reservation.Reservation) { r.Lent = 5 }, loan.Loan{Home: me, Phase: loan.Ending, Epoch: 6}, nil, "own", 3,
		},
		"home frees": {
			"10.35.1.7", func(r *reservation.Reservation) { r.Lent = 5 }, loan.Loan{Home: me, Phase: loan.Ending, Epoch: 6, Free: true}, nil, "free", 3,
		},
		"a guest is given back": {
			"10.9.9.7", func(r *reservation.Reservation) { r.Guest = 5 },
			loan.Loan{Home: other, Borrower: me, Phase: loan.Lent, Epoch: 5, GiveBack: true},
			&loan.Loan{Home: other, Phase: loan.Lent, Epoch: 6}, "free", 2,
		},
		"a guest whose node was taken for dead": {
			"10.9.9.7", func(r *reservation.Reservation) { r.Guest = 5 }, loan.Loan{Home: other, Phase: loan.Lent, Epoch: 6}, &loan.Loan{Home: other, Phase: loan.Lent, Epoch: 6}, "free", 1,
		},
	} {
		for at := range tc.asks {
			for _, sent := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/%t", name, at, sent), func(t *testing.T) {
					ns, n := env.Namespace(t), newNode(t, me)
					n.OwnNetwork = true
					if tc.record != nil {
						n.keep(t, ns, "web-0", tc.ip, tc.record)
					}
					o := newLoan(t, ns, "web-0", tc.ip, tc.loan)
					config := n.REST
					dies := n.diesAt(at+1, sent)
					stop := n.startUntil(t)
					testenv.Eventually(t, func() error {
						var now v1alpha1.BorrowedAddress
						err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(o), &now)
						select {
						case <-dies:
							return nil
						default:
						}
						if tc.ends == nil && apierrors.IsNotFound(err) || tc.ends != nil && err == nil && *plan.LoanOf(&now) == *tc.ends {
							return nil // it needed fewer requests
						}
						return fmt.Errorf("neither the request nor the end: %+v, %w", now.Status, err)
					})
					stop()
					n.REST, n.Registry = config, prometheus.NewRegistry()
					n.start(t)
					loanIs(t, o, tc.ends)
					n.recordIs(t, ns, "web-0", tc.then)
				})
			}
		}
	}
}

// diesAt fails requests about one loan from the given one on. It tells when that came.
func (n *node) diesAt(at int32, sent bool) <-chan struct{} {
	var count atomic.Int32
	dies := make(chan struct{})
	n.REST = rest.CopyConfig(n.REST)
	n.REST.Wrap(func(to http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if !strings.Contains(r.URL.Path, "/borrowedaddresses/") {
				return to.RoundTrip(r)
			}
			now := count.Add(1)
			if now == at {
				defer close(dies)
			}
			if now < at {
				return to.RoundTrip(r)
			}
			if now == at && sent {
				if answer, err := to.RoundTrip(r); err == nil {
					_ = answer.Body.Close()
				}
			}
			return nil, errors.New("the agent dies")
		})
	})
	return dies
}

// TestAWaitOfTheControllerIsNotGivenBack lets a node borrow before it has the pod in its list. The address stays until the pod
// comes.
func TestAWaitOfTheControllerIsNotGivenBack(t *testing.T) {
	ns, n := env.Namespace(t), newOwn(t, "loan-early", "10.36.1.0/24", "192.0.2.1")
	a := n.start(t)
	testenv.Eventually(t, a.Ready)
	named := loan.Loan{Home: "elsewhere", Borrower: n.Node, Phase: loan.Lent, Epoch: 5}
	o := newLoan(t, ns, "web-0", "10.9.9.7", named)
	pod := testenv.APod("web-0").In(ns).On(n.Node)
	n.keep(t, ns, "web-1", "10.36.1.8", func(r *reservation.Reservation) { r.BootID = "before" })
	n.recordIs(t, ns, "web-1", "own") // the agent has looked at the loans since
	loanIs(t, o, &named)
	env.Create(t, pod.Pod)
	n.recordIs(t, ns, "web-0", "guest 5")
	loanIs(t, o, &named)
}
