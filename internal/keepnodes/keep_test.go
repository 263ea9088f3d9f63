package keepnodes_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/keepnodes"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env, v1alpha1.AddToScheme))
}

const autoscaler, karpenter = "cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt"

// TestNodesWithReservationsAreKept runs two keepers, as two replicas would while both believe that they lead, with the rights of
// deploy/keep-nodes.
func TestNodesWithReservationsAreKept(t *testing.T) {
	as := env.AsController(t)
	for _, path := range []string{"deploy/keep-nodes/policy.yaml", "deploy/keep-nodes/rbac.yaml"} {
		for _, o := range env.Manifest(t, path) {
			env.Create(t, o)
		}
	}
	mgr := env.NewManager(t, cluster.CacheOptions(keepnodes.Needs()))
	env.Start(t, mgr)
	keepers := []*keepnodes.Keeper{}
	for range 2 {
		keepers = append(keepers, &keepnodes.Keeper{Client: writer{mgr.GetClient(), env.As(t, as)}, Clock: clocktesting.NewFakeClock(time.Now())})
	}
	both := map[string]string{autoscaler: "true", karpenter: "true"}
	tests := map[string]struct {
		person, kept map[string]string
		notReady     bool
	}{
		"reservations":                      {kept: both},
		"an annotation of a person":         {person: map[string]string{karpenter: "true"}, kept: both},
		"a person lets the node go":         {person: map[string]string{autoscaler: "false"}, kept: map[string]string{autoscaler: "false", karpenter: "true"}},
		"another annotation":                {person: map[string]string{"own": "1"}, kept: map[string]string{"own": "1", autoscaler: "true", karpenter: "true"}},
		"a node that tells no reservations": {notReady: true},
		"both annotations are a person's":   {person: both, kept: both},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node := testenv.ANode(env.Name("n"))
			node.Annotations = tc.person
			if tc.notReady {
				node = node.NotReady()
			}
			env.Create(t, node.Node)
			pool := &v1alpha1.NodeIPPool{ObjectMeta: metav1.ObjectMeta{Name: "net." + node.Name}, Status: v1alpha1.NodeIPPoolStatus{Node: node.Name, Network: "net", Total: 9, Reserved: 1, Free: 8}}
			env.Create(t, pool)
			shows := func(want map[string]string) {
				t.Helper()
				testenv.Eventually(t, func() error {
					for _, k := range keepers {
						if err := k.Keep(t.Context()); err != nil {
							return err
						}
					}
					env.Read(t, client.ObjectKeyFromObject(node.Node), node.Node)
					if !maps.Equal(node.Annotations, want) {
						return fmt.Errorf("the Node has %v, want %v", node.Annotations, want)
					}
					return nil
				})
			}
			shows(tc.kept)
			version := node.ResourceVersion
			shows(tc.kept)
			if node.ResourceVersion != version {
				t.Error("the Node was written again without a change")
			}
			env.Change(t, pool, func() { pool.Status.Lent = 1 }) // the address is elsewhere
			shows(tc.person)
			env.Change(t, pool, func() { pool.Status.Reserved = 2 })
			shows(tc.kept)
			env.Change(t, pool, func() { pool.Status.Reserved, pool.Status.Lent = 0, 0 })
			shows(tc.person)
		})
	}
}

// TestWhatAPersonWritesLaterStays overwrites an annotation that the keeper has written.
func TestWhatAPersonWritesLaterStays(t *testing.T) {
	node := testenv.ANode("n1").Node
	node.UID = types.UID("u1")
	node.Annotations = map[string]string{autoscaler: "false", karpenter: "true"}
	node.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "limpet-keep-nodes", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:karpenter.sh/do-not-disrupt":{}}}}`)}}
	if got := keepnodes.Plan(keepnodes.Input{Nodes: []*corev1.Node{node}, Reserves: map[string]bool{"n1": true}}); len(got) != 0 {
		t.Errorf("with reservations: %+v", got)
	}
	patched := node.DeepCopy()
	patched.ManagedFields[0].Operation = metav1.ManagedFieldsOperationUpdate
	if got := keepnodes.Plan(keepnodes.Input{Nodes: []*corev1.Node{patched}}); len(got) != 0 {
		t.Errorf("an apply would change nothing, again and again: %+v", got)
	}
	if got := keepnodes.Plan(keepnodes.Input{Nodes: []*corev1.Node{node}}); len(got) != 1 || len(got[0].Keys) != 0 {
		t.Errorf("without: %+v, want that the keeper's own is taken away", got)
	}
}

// TestNodesThatFallSilent writes none while they may be back soon: neither one that reboots, nor a thousand at once.
func TestNodesThatFallSilent(t *testing.T) {
	node, now := testenv.ANode("n1").Node, time.Now()
	node.UID, node.Annotations = "u1", map[string]string{autoscaler: "false", karpenter: "true"}
	node.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "limpet-keep-nodes", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:karpenter.sh/do-not-disrupt":{}}}}`)}}
	for name, tc := range map[string]struct {
		away     time.Duration
		reserves bool
		writes   int
	}{
		"a reboot":                          {9 * time.Minute, true, 0},
		"its reservations may have ended":   {10 * time.Minute, true, 1},
		"its last reservation ended before": {time.Second, false, 1},
	} {
		in := keepnodes.Input{Nodes: []*corev1.Node{node}, Reserves: map[string]bool{"n1": tc.reserves}, Away: map[types.UID]time.Time{"u1": now.Add(-tc.away)}, Now: now}
		if got := keepnodes.Plan(in); len(got) != tc.writes {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestANodeComesBack has a node that is kept and falls silent, and comes back.
func TestANodeComesBack(t *testing.T) {
	mgr := env.NewManager(t, cluster.CacheOptions(keepnodes.Needs()))
	env.Start(t, mgr)
	clock := clocktesting.NewFakeClock(time.Now())
	k := &keepnodes.Keeper{Client: writer{mgr.GetClient(), env.Client}, Clock: clock}
	node := testenv.ANode(env.Name("n")).Node
	env.Create(t, node)
	env.Create(t, &v1alpha1.NodeIPPool{ObjectMeta: metav1.ObjectMeta{Name: "net." + node.Name}, Status: v1alpha1.NodeIPPoolStatus{Node: node.Name, Network: "net", Total: 9, Reserved: 1, Free: 8}})
	for _, step := range []struct {
		ready corev1.ConditionStatus
		after time.Duration // between looks
		kept  int
	}{{corev1.ConditionTrue, 0, 2}, {corev1.ConditionUnknown, time.Minute, 0}, {corev1.ConditionTrue, time.Minute, 2}} {
		status := client.RawPatch(types.StrategicMergePatchType, []byte(`{"status":{"conditions":[{"type":"Ready","status":"`+string(step.ready)+`"}]}}`))
		if err := env.Client.Status().Patch(t.Context(), node, status); err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, func() error {
			clock.Step(step.after)
			if err := k.Keep(t.Context()); err != nil {
				return err
			}
			env.Read(t, client.ObjectKeyFromObject(node), node)
			if len(node.Annotations) != step.kept {
				return fmt.Errorf("%s: the Node has %v", step.ready, node.Annotations)
			}
			return nil
		})
	}
}

// TestADeadAgentKeepsNoNodeForever has an agent tell when its last reservation ends, and then nothing more. Earlier agents do
// not tell.
func TestADeadAgentKeepsNoNodeForever(t *testing.T) {
	mgr := env.NewManager(t, cluster.CacheOptions(keepnodes.Needs()))
	env.Start(t, mgr)
	clock := clocktesting.NewFakeClock(time.Now())
	k := &keepnodes.Keeper{Client: writer{mgr.GetClient(), env.Client}, Clock: clock}
	tells, former := testenv.ANode(env.Name("n")).Node, testenv.ANode(env.Name("n")).Node
	for node, until := range map[*corev1.Node]*metav1.Time{tells: {Time: clock.Now().Add(time.Hour)}, former: nil} {
		env.Create(t, node)
		env.Create(t, &v1alpha1.NodeIPPool{
			ObjectMeta: metav1.ObjectMeta{Name: "net." + node.Name},
			Status:     v1alpha1.NodeIPPoolStatus{Node: node.Name, Network: "net", Total: 9, Reserved: 1, ReservedUntil: until, Free: 8},
		})
	}
	for _, step := range []struct {
		after time.Duration
		kept  int
	}{{59 * time.Minute, 2}, {2 * time.Minute, 0}} {
		clock.Step(step.after)
		testenv.Eventually(t, func() error {
			if err := k.Keep(t.Context()); err != nil {
				return err
			}
			env.Read(t, client.ObjectKeyFromObject(tells), tells)
			env.Read(t, client.ObjectKeyFromObject(former), former)
			if len(tells.Annotations) != step.kept || len(former.Annotations) != 2 {
				return fmt.Errorf("after %s: %v and %v", step.after, tells.Annotations, former.Annotations)
			}
			return nil
		})
	}
}

// TestManyRefusalsAreOneLine has the controller switched on without the right, and a cache that lists in no order.
func TestManyRefusalsAreOneLine(t *testing.T) {
	mgr := env.NewManager(t, cluster.CacheOptions(keepnodes.Needs()))
	env.Start(t, mgr)
	for i := range 9 {
		node := testenv.ANode(fmt.Sprint("refused-", i)).Node
		env.Create(t, node)
		env.Create(t, &v1alpha1.NodeIPPool{ObjectMeta: metav1.ObjectMeta{Name: "net." + node.Name}, Status: v1alpha1.NodeIPPoolStatus{Node: node.Name, Network: "net", Total: 9, Reserved: 1, Free: 8}})
	}
	unprivileged := rest.CopyConfig(env.Config)
	unprivileged.Impersonate.UserName = "unprivileged"
	k := &keepnodes.Keeper{Client: writer{mgr.GetClient(), env.As(t, unprivileged)}, Clock: clocktesting.NewFakeClock(time.Now())}
	testenv.Eventually(t, func() error {
		if err := k.Keep(t.Context()); err == nil || !strings.Contains(err.Error(), "refused-0") || strings.Contains(err.Error(), "refused-1") {
			return fmt.Errorf("want one Node in: %w", err)
		}
		return nil
	})
	first := k.Keep(t.Context()).Error()
	for range 9 {
		if next := k.Keep(t.Context()).Error(); next != first {
			t.Errorf("%s, then %s", first, next)
		}
	}
}

// writer reads from the cache, and writes with the rights of the controller.
type writer struct {
	client.Client
	as client.Client
}

func (w writer) Patch(ctx context.Context, o client.Object, p client.Patch, options ...client.PatchOption) error {
	return w.as.Patch(ctx, o, p, options...)
}
