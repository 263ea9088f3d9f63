package agent_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
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

var (
	crowdNodes = flag.Int("crowd-nodes", 5_000, "nodes of TestAnAgentAmongTenThousandLoans")
	crowdLoans = flag.Int("crowd-loans", 10_000, "addresses on loan in TestAnAgentAmongTenThousandLoans")
)

// TestAnAgentAmongTenThousandLoans has many nodes and addresses on loan between them. It prints what these cost an agent that none
// of them concerns, and its kernel, and what a loan of its own does. The benchmark of a large cluster makes a table of its rows.
func TestAnAgentAmongTenThousandLoans(t *testing.T) {
	if testing.Short() {
		t.Skip("-short was given, and this writes 15 000 objects for a minute; make test-all runs it")
	}
	nodes, loans := *crowdNodes, *crowdLoans
	row := func(what, value string, args ...any) { t.Logf("| "+what+" | "+value+" |", args...) }
	c := newCrowd(t, nodes)
	connect := c.connects(t, loans)
	stop := c.boot(t)
	c.routesStand(t, nodes)
	had, alone, table := c.bytes.Load(), connect(), c.tableSize(t)
	row("nodes, loans", "%d, %d", nodes, loans)
	c.lend(t, loans)
	began := time.Now()
	c.routesStand(t, nodes+loans)
	row("last loan written → all routes stand", "%.1f s", time.Since(began).Seconds())
	row("bytes of its watch for a loan that begins", "%d", (c.bytes.Load()-had)/int64(loans))
	among := connect()
	row("a socket connects to a lent address: before, with all routes", "%d ns, %d ns", alone.Nanoseconds(), among.Nanoseconds())
	row("times as long", "%.2f", float64(among)/float64(alone))
	row("size of the kernel's table of routes: before, with all routes", "%d kB, %d kB", table, c.tableSize(t))
	stop()

	c.loseRoutes(t)
	before := inUse()
	requests, had := c.requests.Load(), c.bytes.Load()
	began = time.Now()
	c.boot(t)
	c.routesStand(t, nodes+loans)
	row("the node boots → all routes stand", "%.1f s", time.Since(began).Seconds())
	row("for that, about loans", "%d requests, %.1f MB", c.requests.Load()-requests, float64(c.bytes.Load()-had)/1e6)
	row("heap of the agent then", "%.1f MB", float64(inUse()-before)/1e6)
	requests, had = c.requests.Load(), c.bytes.Load()
	c.oneLife(t)
	row("an address of its own is lent and comes back: requests of home, bytes to it", "%d, %d", c.requests.Load()-requests, c.bytes.Load()-had)
}

// inUse returns the bytes of the heap. What pools hold is gone after the second collection.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // no heap is as large
}

// connects returns what measures the time in which a socket connects to a lent address: the kernel looks up the route.
func (c *crowd) connects(t *testing.T, loans int) func() time.Duration {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(socket) })
	var to []unix.Sockaddr
	for i := range loans {
		_, ip := c.loan(i)
		to = append(to, &unix.SockaddrInet4{Port: 9, Addr: netip.MustParseAddr(ip).As4()})
	}
	return func() time.Duration {
		best := time.Hour
		for range 200 {
			began := time.Now()
			for _, addr := range to {
				if err := unix.Connect(socket, addr); err != nil {
					t.Fatal(err)
				}
			}
			best = min(best, time.Since(began))
		}
		return best / time.Duration(loans)
	}
}

// tableSize returns the kilobytes of the routes, their trie and what it leaves empty.
func (c *crowd) tableSize(t *testing.T) (kB int) {
	t.Helper()
	text, err := os.ReadFile("/proc/thread-self/net/fib_triestat")
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range strings.Split(string(text), "Total size:")[1:] {
		var size int
		if _, err := fmt.Sscan(table, &size); err != nil {
			t.Fatal(err)
		}
		kB += size
	}
	return kB
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

// loan returns home and address of a loan.
func (c *crowd) loan(i int) (home int, ip string) {
	home = 1 + i%(c.nodes-1)
	return home, crowdRange(home) + fmt.Sprint(2+i/(c.nodes-1))
}

// lend makes loans between all other nodes.
func (c *crowd) lend(t *testing.T, loans int) {
	each(t, loans, func(ctx context.Context, i int) error {
		home, ip := c.loan(i)
		o := &v1alpha1.BorrowedAddress{ObjectMeta: metav1.ObjectMeta{Namespace: c.ns}}
		o.Spec = v1alpha1.BorrowedAddressSpec{Pod: fmt.Sprint("db-", i), Network: plan.NetworkName, Interface: "eth0", IPs: ip}
		o.Name = o.Spec.ObjectName()
		o.Status = v1alpha1.BorrowedAddressStatus{Home: fmt.Sprint("crowd-", home), Borrower: fmt.Sprint("crowd-", 1+home%(c.nodes-1)), Phase: "Lent", Epoch: 1}
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
	o := newLoan(t, c.ns, "web-0", crowdRange(0)+"7", loan.Loan{Home: c.Node, Phase: loan.Asked, Epoch: 10})
	loanIs(t, o, &loan.Loan{Home: c.Node, Phase: loan.Lent, Epoch: 10})
	change(t, o, func(s *v1alpha1.BorrowedAddressStatus) { s.Borrower, s.Epoch = "crowd-9", 11 })
	change(t, o, func(s *v1alpha1.BorrowedAddressStatus) { s.Phase = "Ending" })
	change(t, o, func(s *v1alpha1.BorrowedAddressStatus) { s.Borrower, s.Epoch = "", 12 })
	loanIs(t, o, nil)
	c.recordIs(t, c.ns, "web-0", "own")
}
