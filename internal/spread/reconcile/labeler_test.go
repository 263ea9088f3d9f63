package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	controller "github.com/limpet-io/limpet/internal/spread/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// labelled waits for the label of a namespace, and whether the label is idle.
func labelled(t *testing.T, namespace, label string, idle bool) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var ns corev1.Namespace
		env.Read(t, client.ObjectKey{Name: namespace}, &ns)
		_, since := ns.Annotations[appsv1beta1.AnnotationSpreadsIdleSince]
		if got := ns.Labels[appsv1beta1.LabelSpreads]; got != label || since != idle {
			return fmt.Errorf("label %q, idle %t, want %q, %t", got, since, label, idle)
		}
		return nil
	})
}

func aSpread(ns, name, policy string) *appsv1beta1.WorkloadSpread {
	s := &appsv1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	s.Spec.TargetReference = appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
	s.Spec.Subsets = []appsv1beta1.WorkloadSpreadSubset{{Name: "a"}}
	if policy != "" {
		s.Annotations = map[string]string{appsv1beta1.AnnotationSpreadFailure: policy}
	}
	return s
}

// The label follows the spreads of the namespace: at once upwards, after a minute downwards. A
// spread is closed unless it says otherwise.
func TestTheLabelFollowsTheSpreads(t *testing.T) {
	needs := cluster.Needs{Objects: []cluster.Need{
		cluster.Of[*appsv1beta1.WorkloadSpread](), cluster.Of(cluster.Labels[*corev1.Namespace], cluster.OwnAnnotations[*corev1.Namespace]),
	}}
	mgr := env.NewManager(t, cluster.CacheOptions(needs))
	now := testingclock.NewFakePassiveClock(time.Now())
	labeler := &controller.Labeler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: now}
	if err := labeler.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	env.Start(t, mgr)
	ns := env.Namespace(t)
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	open, closed := aSpread(ns, "open", appsv1beta1.SpreadOpen), aSpread(ns, "closed", "")

	env.Create(t, open) // as before Limpet came: no webhook has set the label
	labelled(t, ns, "open", false)
	env.Create(t, closed)
	labelled(t, ns, "closed", false)
	env.Patch(t, object, `{"metadata":{"labels":{"limpet.dev/spreads":null}}}`)
	labelled(t, ns, "closed", false)

	env.Annotate(t, closed, appsv1beta1.AnnotationSpreadFailure, appsv1beta1.SpreadOpen)
	labelled(t, ns, "closed", true)
	wake := func() { // the labeler itself waits for a minute
		t.Helper()
		now.SetTime(now.Now().Add(2 * time.Minute))
		env.Annotate(t, object, appsv1beta1.AnnotationSpreadsIdleSince, now.Now().Add(-90*time.Second).UTC().Format(time.RFC3339))
	}
	wake()
	labelled(t, ns, "open", false)
	env.Remove(t, open)
	env.Remove(t, closed)
	labelled(t, ns, "open", true)
	wake()
	labelled(t, ns, "", false)
}
