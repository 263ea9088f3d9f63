package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// service passes each connection to one of some addresses at random, as kube-proxy does for a
// Service, also to one that does not answer any more.
func service(t *testing.T, backends ...string) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // which ends the loop
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = from.Close() }()
				to, err := new(net.Dialer).Dial("tcp", backends[rand.IntN(len(backends))])
				if err != nil {
					return
				}
				defer func() { _ = to.Close() }()
				go func() {
					_, _ = io.Copy(to, from)
					_ = to.Close()
				}()
				_, _ = io.Copy(from, to)
			}()
		}
	}()
	return l.Addr().String()
}

// One of two replicas falls silent, as with its node, and the API server goes on asking both. Pods
// that ask for a reservation are created all the same, by the retries of their workload.
func TestPodsAreCreatedAfterTheLossOfAReplica(t *testing.T) {
	install(t)
	first, second := startBoth(t)
	throughService(t, first, service(t, first.webhook, second.webhook))
	set := testenv.AStatefulSet("web", 40).In(env.Namespace(t))
	env.Create(t, set.StatefulSet)
	create := func(i int) time.Duration {
		began, wait := time.Now(), 5*time.Millisecond
		for {
			err := env.Client.Create(t.Context(), testenv.APod(fmt.Sprintf("web-%d", i)).In(set.Namespace).OwnedBy(set.StatefulSet).With(reservation.RetainAnnotation, "10").Pod)
			if err == nil {
				return time.Since(began)
			}
			if !apierrors.IsInternalError(err) || time.Since(began) > time.Minute {
				t.Errorf("create pod %d: %v", i, err)
				return time.Since(began)
			}
			<-time.After(wait) // as the workqueue of a workload's controller does
			wait *= 2
		}
	}
	atOnce := func(from, to int) []time.Duration {
		took := make(chan time.Duration)
		for i := from; i < to; i++ {
			go func() { took <- create(i) }()
		}
		var all []time.Duration
		for range to - from {
			all = append(all, <-took)
		}
		slices.Sort(all)
		return all
	}
	atOnce(0, 20)
	if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.cmd.Process.Signal(syscall.SIGCONT) })
	all := atOnce(20, 40)
	t.Logf("20 pods after the loss: median %s, 90 %% %s, last %s", all[10].Round(time.Millisecond), all[18].Round(time.Millisecond), all[19].Round(time.Millisecond))
}

// throughService points the webhooks of pods at an address.
func throughService(t *testing.T, r *replica, address string) {
	t.Helper()
	pointWebhooksAt(t, r)
	_, port, _ := net.SplitHostPort(address)
	mutating, _ := readWebhooks(t)
	var m admissionv1.MutatingWebhookConfiguration
	replace(t, mutating, &m, func() { // again after a conflict with the replica
		for i := range mutating.Webhooks {
			c := &mutating.Webhooks[i].ClientConfig
			if c.Service != nil {
				c.URL, c.Service = new("https://localhost:"+port+*c.Service.Path), nil
			}
			c.CABundle = m.Webhooks[i].ClientConfig.CABundle
		}
	})
}
