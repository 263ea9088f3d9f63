package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/agent"
	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// crowd is a cluster of many nodes and loans, as one agent sees it.
type crowd struct {
	*node
	*meter
	ns    string
	nodes int
	pass  *netlink.Handle // of the network namespace of the node
}

// meter counts what an agent asks about loans, and the bytes that come back.
type meter struct{ requests, bytes atomic.Int64 }

func (m *meter) wrap(to http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		resp, err := to.RoundTrip(r)
		if err == nil && strings.Contains(r.URL.Path, "/borrowedaddresses") {
			m.requests.Add(1)
			resp.Body = metered{resp.Body, &m.bytes}
		}
		return resp, err
	})
}

type metered struct {
	io.ReadCloser
	bytes *atomic.Int64
}

func (m metered) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	m.bytes.Add(int64(n))
	return n, err
}

// TestAnAgentAmongTenThousandLoans has 5 000 nodes and 10 000 addresses on loan between them. It prints what these cost an
// agent that none of them concerns, and what a loan of its own does.
func TestAnAgentAmongTenThousandLoans(t *testing.T) {
	if testing.Short() {
		t.Skip("-short was given, and this writes 15 000 objects for a minute; make test-all runs it")
	}
	const nodes, loans = 5_000, 10_000
	c := newCrowd(t, nodes)
	stop := c.boot(t)
	c.routesStand(t, nodes)
	before, had := inUse(), c.bytes.Load()
	c.lend(t, loans)
	began := time.Now()
	c.routesStand(t, nodes+loans)
	t.Logf("routes of the last loans: %s after the last write", time.Since(began).Round(10*time.Millisecond))
	t.Logf("a loan: %d bytes of a watch when it begins, %d bytes of memory", (c.bytes.Load()-had)/loans, (inUse()-before)/loans)
	stop()

	c.loseRoutes(t)
	requests, had := c.requests.Load(), c.bytes.Load()
	began = time.Now()
	c.boot(t)
	c.routesStand(t, nodes+loans)
	t.Logf("boot: all routes stand after %s; %d requests and %.1f MB about loans",
		time.Since(began).Round(10*time.Millisecond), c.requests.Load()-requests, float64(c.bytes.Load()-had)/1e6)
	c.oneLife(t)
}

// inUse returns the bytes of the heap.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // no heap is as large
}

func newCrowd(t *testing.T, nodes int) *crowd {
	t.Helper()
	c := &crowd{ns: env.Namespace(t), nodes: nodes, meter: &meter{}, node: newOwn(t, "crowd-0", "10.128.0.0/24", "198.18.0.1")}
	c.pass = handle(t)
	eth0, err := c.pass.LinkByName("eth0")
	if err == nil {
		var on *netlink.Addr
		if on, err = netlink.ParseAddr("198.18.0.1/15"); err == nil {
			err = c.pass.AddrAdd(eth0, on)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	c.REST.Wrap(c.wrap)
	each(t, nodes-1, func(ctx context.Context, i int) error {
		n := peer(fmt.Sprint("crowd-", i+1), []string{crowdRange(i+1) + "0/24"}, fmt.Sprintf("198.18.%d.%d", (i+1)/250, 1+(i+1)%250))
		return env.Client.Create(ctx, n)
	})
	t.Cleanup(func() { // the next test's agent would make their routes; a request may end before all are gone
		ctx := context.WithoutCancel(t.Context())
		testenv.Within(t, 3*time.Minute, func() error {
			return errors.Join(env.Client.DeleteAllOf(ctx, &v1alpha1.BorrowedAddress{}, client.InNamespace(c.ns)), env.Client.DeleteAllOf(ctx, &corev1.Node{}))
		})
	})
	return c
}

// crowdRange is the beginning of the addresses of a node.
func crowdRange(node int) string { return fmt.Sprintf("10.%d.%d.", 128+node/250, node%250) }

// each does something n times, some at once.
func each(t *testing.T, n int, do func(context.Context, int) error) {
	t.Helper()
	var all sync.WaitGroup
	const hands = 16
	for hand := range hands {
		all.Go(func() {
			for i := hand; i < n; i += hands {
				if err := do(t.Context(), i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// lend makes loans between all other nodes.
func (c *crowd) lend(t *testing.T, loans int) {
	each(t, loans, func(ctx context.Context, i int) error {
		home, others := 1+i%(c.nodes-1), c.nodes-1
		o := &v1alpha1.BorrowedAddress{ObjectMeta: metav1.ObjectMeta{Namespace: c.ns}}
		o.Spec = v1alpha1.BorrowedAddressSpec{Pod: fmt.Sprint("db-", i), Network: plan.NetworkName, Interface: "eth0", IPs: crowdRange(home) + fmt.Sprint(2+i/others)}
		o.Name = o.Spec.ObjectName()
		o.Status = v1alpha1.BorrowedAddressStatus{Home: fmt.Sprint("crowd-", home), Borrower: fmt.Sprint("crowd-", 1+home%others), Phase: "Lent", Epoch: 1}
		return env.Client.Create(ctx, o)
	})
}

// boot starts the agent, and returns what stops it.
func (c *crowd) boot(t *testing.T) (stop func()) {
	t.Helper()
	c.Registry = prometheus.NewRegistry()
	a, err := agent.New(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run agent: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// routesStand waits until the node has a number of routes of Limpet.
func (c *crowd) routesStand(t *testing.T, want int) {
	t.Helper()
	testenv.Within(t, 5*time.Minute, func() error {
		all, err := c.ours()
		if err == nil && len(all) != want {
			err = fmt.Errorf("%d routes, want %d", len(all), want)
		}
		return err
	})
}

// ours are the routes that the agent made.
func (c *crowd) ours() ([]netlink.Route, error) {
	return c.pass.RouteListFiltered(unix.AF_INET, &netlink.Route{Protocol: 0x4c}, netlink.RT_FILTER_PROTOCOL)
}

// loseRoutes removes the routes that the agent made, as a boot does.
func (c *crowd) loseRoutes(t *testing.T) {
	t.Helper()
	all, err := c.ours()
	for i := range all {
		err = errors.Join(err, c.pass.RouteDel(&all[i]))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// oneLife lends an address of this node and takes it back, with the test as controller and as the borrower.
func (c *crowd) oneLife(t *testing.T) {
	c.keep(t, c.ns, "web-0", crowdRange(0)+"7", func(*reservation.Reservation) {})
	requests, had := c.requests.Load(), c.bytes.Load()
	o := newLoan(t, c.ns, "web-0", crowdRange(0)+"7", loan.Loan{Home: c.Node, Phase: loan.Asked, Epoch: 10})
	loanIs(t, o, &loan.Loan{Home: c.Node, Phase: loan.Lent, Epoch: 10})
	change(t, o, func(s *v1alpha1.BorrowedAddressStatus) { s.Borrower, s.Epoch = "crowd-9", 11 })
	change(t, o, func(s *v1alpha1.BorrowedAddressStatus) { s.Phase = "Ending" })
	change(t, o, func(s *v1alpha1.BorrowedAddressStatus) { s.Borrower, s.Epoch = "", 12 })
	loanIs(t, o, nil)
	c.recordIs(t, c.ns, "web-0", "own")
	t.Logf("a loan of its own, from asked to gone: %d requests of home, %d bytes to it", c.requests.Load()-requests, c.bytes.Load()-had)
}
