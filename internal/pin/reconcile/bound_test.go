package reconcile_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	controller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// largestReservation is a reservation as large as the CRD lets an agent make it.
func largestReservation(i int) limpetv1alpha1.IPReservation {
	var r limpetv1alpha1.IPReservation
	r.Namespace, r.Name = strings.Repeat("n", 63), fmt.Sprint(strings.Repeat("r", 240), i)
	r.UID, r.ResourceVersion = types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i)), fmt.Sprint(1_000_000+i)
	r.Labels = map[string]string{"limpet.dev/node": "n1"}
	r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: types.UID(fmt.Sprint("node", i))}}
	r.Status = limpetv1alpha1.IPReservationStatus{
		Node: "n1", Network: strings.Repeat("w", 253), Interface: strings.Repeat("i", 15),
		Pod: fmt.Sprint(strings.Repeat("p", 240), i), PodUID: strings.Repeat("u", 128), IPs: strings.Repeat("1", 1024), State: limpetv1alpha1.IPReserved,
	}
	return r
}

// A stolen token of an agent makes the controller hold 40 MiB more at the most.
func TestReservationsOfANodeFitIntoTheController(t *testing.T) {
	const made, want, room = 20_000, 12_000, 40 << 20
	options := cluster.CacheOptions(controller.Needs())
	lw := &toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (kruntime.Object, error) {
			list := &limpetv1alpha1.IPReservationList{}
			list.ResourceVersion = "1"
			for i := range made {
				list.Items = append(list.Items, largestReservation(i))
			}
			return list, nil
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil {
				return nil, apierrors.NewInvalid(limpetv1alpha1.GroupVersion.WithKind("IPReservation").GroupKind(), "", nil)
			}
			return watch.NewFake(), nil
		},
	}
	informer := options.NewInformer(lw, &limpetv1alpha1.IPReservation{}, 0, toolscache.Indexers{})
	for kind, by := range options.ByObject {
		if _, same := kind.(*limpetv1alpha1.IPReservation); same {
			if err := informer.SetTransform(by.Transform); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := heap()
	go informer.RunWithContext(t.Context())
	testenv.Eventually(t, func() error {
		if n := len(informer.GetStore().ListKeys()); !informer.HasSynced() || n != want {
			return fmt.Errorf("the cache holds %d reservations, want %d", n, want)
		}
		return nil
	})
	if took := heap() - before; took > room {
		t.Errorf("%d reservations take %d MiB, want at most %d", want, took>>20, room>>20)
	}
	runtime.KeepAlive(informer)
}

// heap is the memory that live objects take.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The CRD bounds characters, of which an attacker may choose long ones.
func TestCacheKeepsNoLongReservation(t *testing.T) {
	long := largestReservation(0)
	long.Status.IPs = strings.Repeat("😀", 1024)
	if got := cached(t, &long).Status; got.IPs != "" || got.Node != "" {
		t.Errorf("the cache keeps %d bytes of addresses, of node %q", len(got.IPs), got.Node)
	}
	owned := largestReservation(0)
	owned.OwnerReferences[0].UID = types.UID(strings.Repeat("u", 1<<20))
	if got := cached(t, &owned).OwnerReferences; len(got) > 0 {
		t.Errorf("the cache keeps an owner with a UID of %d bytes", len(got[0].UID))
	}
}
