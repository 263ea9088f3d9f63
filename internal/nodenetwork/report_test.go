package nodenetwork_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controller "github.com/limpet-io/limpet/internal/nodenetwork"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env, v1alpha1.AddToScheme))
}

// TestTheStatusFollowsTheNodes writes the status when a node answers, and not again while nothing changes. It uses the
// rights of the controller.
func TestTheStatusFollowsTheNodes(t *testing.T) {
	env.Since(t, 31, "CEL functions for networks")
	as := env.AsControllerWithNetworks(t)
	o := &v1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeNetworkName}, Spec: v1alpha1.NodeNetworkSpec{MTU: 1450}}
	mgr := env.NewManager(t, cluster.CacheOptions(controller.Needs()))
	c := env.As(t, as)
	r := &controller.Reporter{Client: statusWriter{Client: mgr.GetClient(), status: c}, Live: c, Clock: clocktesting.NewFakeClock(time.Now())}
	env.Start(t, mgr)
	if err := r.Report(t.Context()); err != nil {
		t.Errorf("without the object: %v", err)
	}
	env.Create(t, o)
	node := env.Node(t)
	pool := told(node.Name, "MTUTooLarge", 1, "the MTU is too large")
	pool.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	env.Create(t, &pool)
	shows := func(reason string) {
		t.Helper()
		testenv.Eventually(t, func() error {
			if err := r.Report(t.Context()); err != nil {
				return err
			}
			env.Read(t, client.ObjectKeyFromObject(o), o)
			if len(o.Status.Conditions) == 0 || o.Status.Conditions[0].Reason != reason {
				return fmt.Errorf("the status is %+v, want %s", o.Status, reason)
			}
			return nil
		})
	}
	shows(v1alpha1.ReasonFailing)
	if f := o.Status.Failures; len(f) != 1 || f[0].Node != node.Name || f[0].Reason != "MTUTooLarge" || f[0].Message != "the MTU is too large" {
		t.Errorf("failures %+v", f)
	}
	version := o.ResourceVersion
	for range 3 {
		if err := r.Report(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if env.Read(t, client.ObjectKeyFromObject(o), o); o.ResourceVersion != version {
		t.Error("the status was written again without a change")
	}
	env.Change(t, &pool, func() {
		pool.Status.Conditions = told(node.Name, "Applied", 1, "").Status.Conditions
	})
	shows(v1alpha1.ReasonApplied)
	if len(o.Status.Failures) != 0 || o.Status.Applied != 1 || o.Status.Failing != 0 {
		t.Errorf("status %+v", o.Status)
	}
}

// TestWithoutTheRightNothingIsReported runs the reporter where users have not applied deploy/node-network.
func TestWithoutTheRightNothingIsReported(t *testing.T) {
	as := rest.CopyConfig(env.Config)
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:limpet-system:without-rights"}
	r := &controller.Reporter{Client: env.Client, Live: env.As(t, as), Clock: clocktesting.NewFakeClock(time.Now())}
	if err := r.Report(t.Context()); err != nil {
		t.Errorf("report: %v", err)
	}
}

// statusWriter reads from the cache, and writes with the rights of the controller.
type statusWriter struct {
	client.Client
	status client.Client
}

func (w statusWriter) Status() client.SubResourceWriter { return w.status.Status() }
