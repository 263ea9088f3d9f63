package agent_test

import (
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// TestWithoutAPIServer starts the agent while the API server refuses connections or does not
// answer. The agent installs the plugin and frees reservations all the same.
func TestWithoutAPIServer(t *testing.T) {
	refusing := func(t *testing.T) string {
		l := listen(t)
		_ = l.Close() // connections to the address are refused from now on
		return l.Addr().String()
	}
	silent := func(t *testing.T) string { return listen(t).Addr().String() }
	for name, address := range map[string]func(*testing.T) string{"refusing": refusing, "silent": silent} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "offline-"+name)
			n.REST = &rest.Config{Host: "http://" + address(t)}
			n.attach(t, "default", "web-0", "u0", n.liveNetNS(), 0)
			n.reserve(t, "default", "lapsed", time.Hour, time.Minute)
			a := n.start(t)
			n.stateIs(t, map[string]string{"web-0": "attached, retain 10m0s"})
			testenv.Eventually(t, a.Ready)
		})
	}
}

// TestAPIServerFallsSilent makes the API server stop answering for a while. Afterwards the
// agent shows the newest state.
func TestAPIServerFallsSilent(t *testing.T) {
	ns, n, gate := env.Namespace(t), newNode(t, "silence"), newGate(t, env.Config.Host)
	n.REST.Host = "https://" + gate.Addr().String()
	n.attach(t, ns, "web-0", "u0", n.liveNetNS(), 0)
	n.start(t)
	n.apiShows(t, map[string]v1alpha1.IPState{"web-0": v1alpha1.IPAttached})

	gate.shut()
	n.reserve(t, ns, "web-1", 0, 4*time.Second) // long enough for the agent to try to create the object
	n.stateIs(t, map[string]string{"web-0": "attached, retain 10m0s"})
	n.reserve(t, ns, "web-2", 0, time.Hour)
	gate.open()
	n.apiShows(t, map[string]v1alpha1.IPState{"web-0": v1alpha1.IPAttached, "web-2": v1alpha1.IPReserved})
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // some tests close it earlier
	return l
}

// gate forwards connections to a server. While it is shut, nothing is forwarded.
type gate struct {
	net.Listener
	to   string
	flow sync.RWMutex
}

func newGate(t *testing.T, server string) *gate {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{Listener: listen(t), to: u.Host}
	if u.Host == "" {
		g.to = server
	}
	go func() {
		for {
			c, err := g.Accept()
			if err != nil {
				return
			}
			go g.pass(t, c)
		}
	}()
	return g
}

func (g *gate) shut() { g.flow.Lock() }
func (g *gate) open() { g.flow.Unlock() }

func (g *gate) pass(t *testing.T, client net.Conn) {
	server, err := new(net.Dialer).DialContext(t.Context(), "tcp", g.to)
	if err != nil {
		_ = client.Close() // the client sees that there is no server
		return
	}
	copyAll := func(to, from net.Conn) {
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			g.flow.RLock()
			_, failed := to.Write(buffer[:n])
			g.flow.RUnlock()
			if err != nil || failed != nil {
				break
			}
		}
		_, _ = client.Close(), server.Close() // the other direction ends with this one
	}
	go copyAll(server, client)
	copyAll(client, server)
}
