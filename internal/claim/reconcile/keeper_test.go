package reconcile_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controller "github.com/limpet-io/limpet/internal/claim/reconcile"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env, limpetv1alpha1.AddToScheme))
}

// serveClaims makes the CRD of IPAMClaims, as soon as the one of a test before is gone.
func serveClaims(t *testing.T) {
	t.Helper()
	crd := env.Manifest(t, "test/e2e/multus/testdata/claims.yaml")[0]
	testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), crd.DeepCopy()) })
	env.RemoveAtEnd(t, crd)
}

// start runs the Keeper as the leader does.
func start(t *testing.T) *controller.Keeper {
	t.Helper()
	needs := []cluster.Needs{controller.Needs(), workloads.Needs("limpet-system")}
	mgr := env.NewManager(t, cluster.CacheOptions(needs...))
	if err := cluster.AddIndexes(t.Context(), mgr.GetFieldIndexer(), needs...); err != nil {
		t.Fatal(err)
	}
	watcher := &workloads.Watcher{
		Registry: workloads.NewRegistry(), Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Discovery: discovery.NewDiscoveryClientForConfigOrDie(mgr.GetConfig()),
		Namespaces: []string{"limpet-system"}, Events: mgr.GetEventRecorder("limpet-controller"), Clock: testenv.HastyClock{}, Elected: mgr.Elected(),
	}
	keeper := &controller.Keeper{Client: mgr.GetClient(), Live: behind{mgr.GetAPIReader()}, Watcher: watcher}
	for _, r := range []interface {
		SetupWithManager(ctrl.Manager) error
	}{watcher, keeper} {
		if err := r.SetupWithManager(mgr); err != nil {
			t.Fatal(err)
		}
	}
	env.Start(t, mgr)
	return keeper
}

// aClaim makes a claim on a network, once its kind is served.
func aClaim(t *testing.T, ns, name, network string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"network": network, "interface": "net1"}}}
	o.SetGroupVersionKind(workloads.IPAMClaims)
	o.SetNamespace(ns)
	o.SetName(name)
	testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), o) })
	return o
}

// keep makes the agent of a node show addresses that are kept for a claim.
func keep(t *testing.T, node *corev1.Node, ns, claim, network, ip string) *limpetv1alpha1.IPReservation {
	t.Helper()
	pod := testenv.APod("vm-1").In(ns).On(node.Name).Pod
	pod.Status.PodIPs = []corev1.PodIP{{IP: ip}}
	r := testenv.AReservation(pod, time.Now())
	r.Name = claim + "." + network + "." + node.Name
	r.Status.Pod, r.Status.Network, r.Status.Interface = reservation.ClaimOwner(claim), network, "net1"
	r.Status.State, r.Status.Until = limpetv1alpha1.IPAttached, nil
	env.Create(t, r)
	return r
}

// end shows that the pod has ended, and that its addresses are kept for an hour.
func end(t *testing.T, r *limpetv1alpha1.IPReservation) {
	t.Helper()
	until := metav1.NewTime(time.Now().Add(time.Hour).Truncate(time.Second))
	env.Change(t, r, func() { r.Status.State, r.Status.Until = limpetv1alpha1.IPReserved, &until })
}

func released(t *testing.T, r *limpetv1alpha1.IPReservation) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if env.Read(t, client.ObjectKeyFromObject(r), r); r.Labels[limpetv1alpha1.LabelRelease] != r.Status.Releases() {
			return fmt.Errorf("IPReservation %s is not given up: labels %v", r.Name, r.Labels)
		}
		return nil
	})
}

func shows(t *testing.T, claim *unstructured.Unstructured, want ...string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		got, found, err := unstructured.NestedStringSlice(claim.Object, "status", "ips")
		if err == nil && (!found || !slices.Equal(got, want)) {
			err = fmt.Errorf("the status shows %q, want %q", got, want)
		}
		return err
	})
}

// A claim shows the addresses that are kept for it. What is kept for a claim that has gone is given up once no pod uses it.
func TestAClaimShowsAndReleasesItsAddresses(t *testing.T) {
	start(t) // the kind is served later
	serveClaims(t)
	node, ns := testenv.ANode(env.Name("node")), env.Namespace(t)
	env.Create(t, node.Node)
	blue := aClaim(t, ns, "vm.blue", "blue-net")
	other := aClaim(t, ns, "vm.other", "blue-net")
	held := keep(t, node.Node, ns, "vm.blue", "blue-net", "10.0.0.5")
	on2 := keep(t, node.Node, ns, "vm.blue", "red-net", "10.1.0.5")
	shows(t, blue, "10.0.0.5")

	end(t, held)
	end(t, on2)
	kept := keep(t, node.Node, ns, "vm.other", "blue-net", "10.0.0.6")
	shows(t, other, "10.0.0.6")
	if err := env.Client.Delete(t.Context(), blue); err != nil {
		t.Fatal(err)
	}
	released(t, held)
	released(t, on2)
	if env.Read(t, client.ObjectKeyFromObject(kept), kept); kept.Labels[limpetv1alpha1.LabelRelease] != "" {
		t.Error("the addresses of a claim that exists are given up")
	}
	env.Remove(t, kept)
	shows(t, other)
}

// Addresses that another program has written stay, also where both keep some for the claim.
func TestTheStatusOfAnotherProgramStays(t *testing.T) {
	serveClaims(t)
	node, ns := testenv.ANode(env.Name("node")), env.Namespace(t)
	env.Create(t, node.Node)
	theirs, ours := aClaim(t, ns, "theirs", "net"), aClaim(t, ns, "ours", "net")
	if err := env.Client.Status().Patch(t.Context(), theirs, client.RawPatch(types.MergePatchType, []byte(`{"status":{"ips":["10.9.0.1/24"]}}`)), client.FieldOwner("their-ipam")); err != nil {
		t.Fatal(err)
	}
	keep(t, node.Node, ns, "theirs", "net", "10.0.0.5")
	start(t)
	keep(t, node.Node, ns, "ours", "net", "10.0.0.6")
	shows(t, ours, "10.0.0.6")
	shows(t, theirs, "10.9.0.1/24")
}

// A backup is restored in any order, and a cluster may have lost the kind: what is kept for a claim that was never seen stays.
func TestNothingIsGivenUpForAClaimThatWasNotSeen(t *testing.T) {
	node, ns := testenv.ANode(env.Name("node")), env.Namespace(t)
	env.Create(t, node.Node)
	held := keep(t, node.Node, ns, "vm.blue", "net", "10.0.0.5")
	end(t, held)
	keeper := start(t)
	stays := func(when string) {
		t.Helper()
		request := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: ns, Name: "vm.blue"}}
		if _, err := keeper.Reconcile(t.Context(), request); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if env.Read(t, client.ObjectKeyFromObject(held), held); held.Labels[limpetv1alpha1.LabelRelease] != "" {
			t.Errorf("%s: given up: labels %v", when, held.Labels)
		}
	}
	stays("before the kind is served")
	serveClaims(t)
	first := aClaim(t, ns, "first", "net")
	keep(t, node.Node, ns, "first", "net", "10.0.0.6")
	shows(t, first, "10.0.0.6") // so the kind is watched
	stays("before the claim is restored")
	shows(t, aClaim(t, ns, "vm.blue", "net"), "10.0.0.5")
}

// behind is a reader that does what a test has put into the context, when it has read.
type behind struct{ client.Reader }

type thenKey struct{}

func (r behind) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, o, options...)
	if then, ok := ctx.Value(thenKey{}).(func()); ok {
		then()
	}
	return err
}

// A deletion counts that is seen while the claim is reconciled, which was still there when it was read.
func TestADeletionBehindTheReadCounts(t *testing.T) {
	keeper := start(t)
	serveClaims(t)
	node, ns := testenv.ANode(env.Name("node")), env.Namespace(t)
	env.Create(t, node.Node)
	blue, next := aClaim(t, ns, "vm.blue", "net"), aClaim(t, ns, "vm.next", "net")
	held, ofNext := keep(t, node.Node, ns, "vm.blue", "net", "10.0.0.5"), keep(t, node.Node, ns, "vm.next", "net", "10.0.0.6")
	shows(t, blue, "10.0.0.5")
	shows(t, next, "10.0.0.6")
	then := func() {
		for _, claim := range []client.Object{blue, next} {
			if err := env.Client.Delete(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
		}
		end(t, ofNext)
		released(t, ofNext) // so the deletion before it was seen
	}
	if _, err := keeper.Reconcile(context.WithValue(t.Context(), thenKey{}, then), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(blue)}); err != nil {
		t.Fatal(err)
	}
	end(t, held)
	released(t, held)
}
