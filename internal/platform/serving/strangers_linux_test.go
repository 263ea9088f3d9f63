package serving_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/endpoint"
	"github.com/limpet-io/limpet/internal/platform/serving"
	"github.com/limpet-io/limpet/internal/testenv"
)

// network is a network namespace that ends with the test.
func network(t *testing.T) (within func(do func())) {
	t.Helper()
	var own netns.NsHandle
	within = func(do func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			var err error
			if own.IsOpen() {
				err = netns.Set(own)
			} else {
				own, err = netns.New()
			}
			if err != nil {
				t.Error(err)
				return
			}
			do()
		}()
		<-done
	}
	own = netns.None()
	t.Cleanup(func() { _ = own.Close() })
	return within
}

// addAddresses gives the interface lo some addresses.
func addAddresses(addresses ...string) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	errs := []error{netlink.LinkSetUp(lo)}
	for _, text := range addresses {
		ip := net.ParseIP(text)
		bits := 128
		if ip.To4() != nil {
			bits = 32
		}
		errs = append(errs, netlink.AddrAdd(lo, &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: net.CIDRMask(bits, bits)}, Flags: unix.IFA_F_NODAD}))
	}
	return errors.Join(errs...)
}

// sources are addresses in the network of the server, and whether one of them may ask.
var sources = map[string]bool{
	"10.244.1.7":  false, // a pod of a tenant
	"10.244.2.9":  false, // a pod of another node
	"10.244.1.8":  true,  // the agent of konnectivity
	"10.244.1.0":  true,  // the tunnel of a node, as an API server in the node's network has it
	"10.244.1.1":  true,  // the bridge of a node
	"10.244.2.1":  false, // a pod of a network that hands out the address of a bridge, too
	"10.244.2.0":  true,  // a pod of kube-system of such a network
	"192.0.2.7":   true,  // a node, an API server outside, or a pod behind address translation
	"10.20.0.7":   true,  // in the wide pod CIDR that a kubelet invented
	"10.30.0.7":   false, // a pod of a network that hands out other addresses than pod CIDRs
	"10.30.0.8":   true,  // had by a pod that has ended
	"10.30.0.9":   true,  // a node, which its pod with hostNetwork has too
	"fd00:1::7":   false,
	"fd00:1::1":   true,
	"fd00:9::7":   false, // a pod of another network
	"2001:db8::7": true,
}

// A pod is not answered, and does not even shake hands. Programs of nodes are, and what managed API servers come
// through.
func TestPodsMayNotAsk(t *testing.T) {
	strangers, apiServer, around := knownStrangers(t)
	sources, refused := maps.Clone(sources), 0
	for source, may := range sources {
		sources[source] = may && !around.Contains(netip.MustParseAddr(source))
	}
	sources[apiServer.String()] = true
	w := &webhooks{authority: newAuthority("server"), registry: prometheus.NewRegistry()}
	pair := w.authority.pair("server", x509.ExtKeyUsageServerAuth)
	certificate := &serving.Certificate{}
	certificate.Use(&pair)
	const port = 9443
	w.Server = serving.NewServer(serving.Options{
		Port: port, Certificate: certificate, Limits: limits, Registry: w.registry, Clock: clock.RealClock{}, Strangers: strangers,
	})
	within := network(t)
	within(func() {
		if err := addAddresses(append(slices.Collect(maps.Keys(sources)), "192.0.2.1", "2001:db8::1")...); err != nil {
			t.Error(err)
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go within(func() {
		defer close(ended)
		if err := w.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	within(func() {
		for source, may := range sources {
			if !may {
				refused++
			}
			if err := shakeHands(source, port); (err == nil) != may {
				t.Errorf("from %s: %v, want an answer: %t", source, err, may)
			}
		}
	})
	stop()
	<-ended
	if n := w.refused(t, endpoint.RefusedNetwork); int(n) != refused {
		t.Errorf("%v connections of strangers are counted, want %d", n, refused)
	}
}

// shakeHands connects from an address to the server in this namespace.
func shakeHands(source string, port int) error {
	to := net.ParseIP("192.0.2.1")
	if net.ParseIP(source).To4() == nil {
		to = net.ParseIP("2001:db8::1")
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}, Timeout: time.Minute}
	c, err := dialer.Dial("tcp", net.JoinHostPort(to.String(), strconv.Itoa(port)))
	early := func() bool { return errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENETUNREACH) } // no listener, or no route to an address of IPv6
	for end := time.Now().Add(time.Minute); early() && time.Now().Before(end); {
		c, err = dialer.Dial("tcp", net.JoinHostPort(to.String(), strconv.Itoa(port)))
	}
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // nothing was asked
	return tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake()
}

// knownStrangers are those of a cluster with nodes, two of which a kubelet has made up: one around the address of the API
// server.
func knownStrangers(t *testing.T) (strangers *serving.Strangers, apiServer netip.Addr, around netip.Prefix) {
	t.Helper()
	var slice discoveryv1.EndpointSlice
	env.Read(t, client.ObjectKey{Namespace: "default", Name: "kubernetes"}, &slice)
	apiServer = netip.MustParseAddr(slice.Endpoints[0].Addresses[0])
	around, err := apiServer.Prefix(24)
	if err != nil {
		t.Fatal(err)
	}
	ns := env.Namespace(t)
	agent := testenv.APod("konnectivity-agent").In("kube-system").On("n1").Ready().At("10.244.1.8")
	other := testenv.APod("other-network").In(ns).On("n2").Ready().At("10.30.0.7", "fd00:9::7")
	first, system := testenv.APod("first").In(ns).On("n2").Ready().At("10.244.2.1"), testenv.APod("first").In("kube-system").On("n2").Ready().At("10.244.2.0")
	ended, proxy := testenv.APod("ended").In(ns).On("n2").At("10.30.0.8"), testenv.APod("proxy").In(ns).On("n2").Ready().At("10.30.0.9")
	ended.Status.Phase, proxy.Spec.HostNetwork = corev1.PodSucceeded, true
	done := testenv.APod("helm-install").In("kube-system").On("n1").At("10.244.1.5")
	done.Status.Phase = corev1.PodSucceeded
	env.Create(t, agent.Pod, first.Pod, system.Pod, other.Pod, ended.Pod, proxy.Pod, done.Pod)
	for name, cidrs := range map[string][]string{
		"n1": {"10.244.1.0/24", "fd00:1::/64"}, "n2": {"10.244.2.0/24"}, "wide": {"10.0.0.0/9", "2000::/3"}, "narrow": {around.String()},
	} {
		node := testenv.ANode(name).Node
		node.Spec.PodCIDR, node.Spec.PodCIDRs = cidrs[0], cidrs
		env.Create(t, node)
	}
	strangers = &serving.Strangers{Cached: asController(t), Clock: clock.RealClock{}}
	if err := strangers.Ready(nil); err == nil {
		t.Error("ready before the addresses are gathered")
	}
	go func() { _ = strangers.Start(t.Context()) }() // until the test ends
	testenv.Eventually(t, func() error {
		if !strangers.Has(netip.MustParseAddr("10.244.2.9")) || !strangers.Has(netip.MustParseAddr("fd00:9::7")) || !strangers.Has(netip.MustParseAddr("10.244.2.1")) || strangers.Has(netip.MustParseAddr("10.244.1.8")) ||
			!strangers.Has(netip.MustParseAddr("10.244.1.5")) {
			return errors.New("the addresses are not gathered")
		}
		return strangers.Ready(nil)
	})
	return strangers, apiServer, around
}

// A pod connects before the addresses of pods are known, and asks on. Conversions are answered until then: caches could
// not be filled otherwise.
func TestAPodThatConnectedEarlyIsRefused(t *testing.T) {
	node := testenv.ANode("early").Node
	node.Spec.PodCIDR, node.Spec.PodCIDRs = "127.0.9.0/24", []string{"127.0.9.0/24"}
	env.Create(t, node)
	strangers := &serving.Strangers{Cached: asController(t), Clock: clock.RealClock{}}
	w := serve(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }, func(o *serving.Options) { o.Strangers = strangers })
	pod := w.client("127.0.9.7", nil)
	pod.Transport.(*http.Transport).MaxIdleConnsPerHost = 1
	ask := func(when string, from *http.Client, to string, want int) {
		t.Helper()
		if status, _, err := w.post(t, from, to, strings.NewReader("{}")); status != want {
			t.Errorf("%s, %s: status %d, %v; want %d", when, to, status, err, want)
		}
	}
	ask("early", w.client("127.0.0.2", nil), path, http.StatusServiceUnavailable)
	ask("early", pod, path, http.StatusServiceUnavailable)
	ask("early", pod, serving.ConversionPath, http.StatusOK)
	go func() { _ = strangers.Start(t.Context()) }() // until the test ends
	testenv.Eventually(t, func() error { return strangers.Ready(nil) })
	testenv.Eventually(t, func() error {
		if !strangers.Has(netip.MustParseAddr("127.0.9.7")) {
			return errors.New("the Node is not gathered")
		}
		return nil
	})
	ask("on the connection that stayed", pod, serving.ConversionPath, http.StatusForbidden)
	ask("later", pod, path, http.StatusForbidden)
	ask("later", w.client("127.0.0.2", nil), path, http.StatusOK)
	if n := w.refused(t, endpoint.RefusedNetwork); n != 2 {
		t.Errorf("%v requests of strangers are counted, want 2", n)
	}
}

// asController is a cache with the rights of the controller, of what strangers are known by.
func asController(t *testing.T) client.Reader {
	t.Helper()
	o := cluster.CacheOptions(serving.Needs())
	o.Scheme = env.Scheme
	cached, err := cache.New(env.AsController(t), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.AddIndexes(t.Context(), cached, serving.Needs()); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cached.Start(t.Context()) }() // until the test ends
	return cached
}
