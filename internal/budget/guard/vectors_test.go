package guard_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

const systemAccount = "system:serviceaccount:kube-system:"

// byDeleting deletes a pod in the name of a user.
func byDeleting(user string) func(*testing.T, *corev1.Pod) error {
	return func(t *testing.T, pod *corev1.Pod) error {
		t.Helper()
		return as(t, user).Delete(t.Context(), pod.DeepCopy())
	}
}

// byChanging updates a pod.
func byChanging(edit func(*corev1.Pod)) func(*testing.T, *corev1.Pod) error {
	return func(t *testing.T, pod *corev1.Pod) error {
		t.Helper()
		after := pod.DeepCopy()
		edit(after)
		return env.Client.Update(t.Context(), after)
	}
}

// plainly performs one of the verbs.
func plainly(way do) func(*testing.T, *corev1.Pod) error {
	return func(t *testing.T, pod *corev1.Pod) error {
		t.Helper()
		return way(t.Context(), pod.DeepCopy(), false)
	}
}

// Each way in which a pod can go is judged or allowed as docs/use/budgets.md says, and
// the other way round where the budget says so. The budget has no unit left.
func TestVectors(t *testing.T) {
	serve(t)
	user := editor(t)
	for _, n := range []testenv.Node{
		testenv.ANode("well"),
		testenv.ANode("dead").Tainted(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute),
		testenv.ANode("ending"),
		testenv.ANode("maintained").Tainted("example.com/maintenance", corev1.TaintEffectNoExecute),
	} {
		env.Create(t, n.WithRoom(100, 64).Node)
		known(t, serving.GetCache(), n.Node)
	}
	ends(t, "ending")
	type vector struct {
		name    string // as in limpet.dev/vectors
		refused bool   // by default
		always  bool   // no budget can refuse it
		on      string // the node of the pod
		prepare func(t *testing.T, set testenv.StatefulSet)
		edit    func(*corev1.Pod) // of the pod before it is created
		try     func(*testing.T, *corev1.Pod) error
	}
	scaledIn := func(t *testing.T, set testenv.StatefulSet) {
		t.Helper()
		env.Change(t, set.StatefulSet, func() { set.Spec.Replicas = new(int32(1)) })
		other := aPod(set, 1)
		env.Read(t, client.ObjectKeyFromObject(other), other)
		other.Status.Conditions[0].Status = corev1.ConditionFalse
		if err := as(t, "system:node:n1", "system:nodes").Status().Update(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		known(t, serving.GetCache(), set.StatefulSet)
		known(t, serving.GetCache(), other)
	}
	gone := func(t *testing.T, set testenv.StatefulSet) {
		t.Helper()
		env.Remove(t, set.StatefulSet)
		forgotten(t, set.StatefulSet)
	}
	restarts := func(p *corev1.Pod) {
		p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
	}
	for what, v := range map[string]vector{
		"evict":             {name: "evict", refused: true, try: plainly(evict)},
		"delete":            {name: "delete", refused: true, try: byDeleting("jane")},
		"force delete":      {name: "delete", refused: true, try: plainly(deletePod)},
		"delete collection": {name: "delete", refused: true, try: plainly(deleteCollection)},
		"rollout":           {name: "delete", refused: true, try: byDeleting(systemAccount + "statefulset-controller")},
		"update":            {name: "update", refused: true, try: plainly(update)},
		"resize":            {name: "resize", refused: true, edit: restarts, try: plainly(resize)},
		"mark":              {name: "update", refused: true, try: byChanging(func(p *corev1.Pod) { p.Labels["unavailable-pod.kruise.io/x"] = "true" })},
		"relabel":           {name: "leave", refused: true, try: byChanging(func(p *corev1.Pod) { p.Labels["app"] = "other" })},
		"exempt": {name: "leave", refused: true, try: func(t *testing.T, pod *corev1.Pod) error {
			t.Helper()
			after := pod.DeepCopy()
			metav1.SetMetaDataAnnotation(&after.ObjectMeta, policyv1beta1.AnnotationNoProtect, "true")
			return user.Update(t.Context(), after)
		}},
		"scale-in":    {name: "scale-in", refused: true, prepare: scaledIn, try: byDeleting(systemAccount + "statefulset-controller")},
		"preemption":  {name: "preemption", try: byDeleting("system:kube-scheduler")},
		"taint":       {name: "taint", on: "dead", try: byDeleting(systemAccount + "node-controller")},
		"admin taint": {name: "admin-taint", refused: true, on: "maintained", try: byDeleting(systemAccount + "node-controller")},
		"node end":    {name: "node-end", on: "ending", try: byDeleting(karpenter)},
		"karpenter":   {name: "delete", refused: true, try: byDeleting(karpenter)},
		"ending node": {name: "delete", refused: true, on: "ending", try: byDeleting("jane")},
		"pod gc":      {name: "pod-gc", always: true, try: byDeleting(systemAccount + "pod-garbage-collector")},
		"garbage":     {name: "teardown", prepare: gone, try: byDeleting(systemAccount + "generic-garbage-collector")},
		"namespace":   {name: "teardown", try: byDeleting(systemAccount + "namespace-controller")},
	} {
		for _, policy := range []string{"", "Check", "Allow"} {
			t.Run(what+" "+policy, func(t *testing.T) {
				sinceResize(t, v.name == "resize")
				ns := guarded(t)
				pub := aBudget(ns, "web", "web", intstr.FromInt32(0))
				pub.Spec.MaxUnavailable, pub.Spec.MinAvailable = nil, new(intstr.FromInt32(2))
				pub.Spec.ProtectOperations = []policyv1beta1.Operation{"DELETE", "UPDATE", "EVICT", "RESIZE"}
				if policy != "" {
					pub.Annotations = map[string]string{policyv1beta1.AnnotationVectors: v.name + "=" + policy}
				}
				set := testenv.AStatefulSet("web", 2).In(ns)
				put(t, pub, set.StatefulSet)
				pods := []*corev1.Pod{aPod(set, 0), aPod(set, 1)}
				for _, pod := range pods {
					pod.Spec.NodeName = "well"
					if v.on != "" {
						pod.Spec.NodeName = v.on
					}
					if v.edit != nil {
						v.edit(pod)
					}
					put(t, pod)
				}
				if v.prepare != nil {
					v.prepare(t, set)
				}
				err := v.try(t, pods[0])
				if wanted := policy == "Check" || policy == "" && v.refused; wanted && !v.always {
					refusedBy(t, err, "web")
				} else if err != nil {
					t.Errorf("answer %v, want that the request passes", err)
				}
			})
		}
	}
}

// ends deletes a node, which stays until the machine is switched off.
func ends(t *testing.T, name string) {
	t.Helper()
	node := &corev1.Node{}
	env.Read(t, client.ObjectKey{Name: name}, node)
	env.Change(t, node, func() { node.Finalizers = []string{"example.com/machine"} })
	if err := env.Client.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error {
		if err := serving.GetCache().Get(t.Context(), client.ObjectKey{Name: name}, node); err != nil || node.DeletionTimestamp == nil {
			return fmt.Errorf("the cache shows node %s without a deletion, error %w", name, err)
		}
		return nil
	})
}

// forgotten waits until the guard's cache shows an object no more.
func forgotten(t *testing.T, o client.Object) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if err := serving.GetCache().Get(t.Context(), client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object)); err == nil {
			return fmt.Errorf("the cache still has %T %s", o, o.GetName())
		}
		return nil
	})
}

// Changes that make no pod unavailable pass, although the budget has no unit.
func TestHarmlessChangesPass(t *testing.T) {
	serve(t)
	env.Create(t, testenv.ANode("n1").WithRoom(100, 64).Node)
	ns := guarded(t)
	_, pods := web(t, ns, 2, intstr.FromInt32(0))
	for what, try := range map[string]func(context.Context, *corev1.Pod) error{
		"a label": func(ctx context.Context, p *corev1.Pod) error {
			metav1.SetMetaDataLabel(&p.ObjectMeta, "more", "x")
			return env.Client.Update(ctx, p)
		},
		"a toleration": func(ctx context.Context, p *corev1.Pod) error {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "a", Operator: "Exists"})
			return env.Client.Update(ctx, p)
		},
		"a resize without a restart": func(ctx context.Context, p *corev1.Pod) error { return resize(ctx, p, false) },
	} {
		t.Run(what, func(t *testing.T) {
			sinceResize(t, strings.HasPrefix(what, "a resize"))
			pod := pods[0].DeepCopy()
			env.Read(t, client.ObjectKeyFromObject(pod), pod)
			if err := try(t.Context(), pod); err != nil {
				t.Error(err)
			}
		})
	}
	if all := booksOf(t, ns); len(all) > 0 {
		t.Errorf("%d books, want none", len(all))
	}
}

// A pod that is not available costs no more than it does already.
func TestAPodThatDoesNotServeMayGo(t *testing.T) {
	serve(t)
	ns := guarded(t)
	put(t, aBudget(ns, "web", "web", intstr.FromInt32(0)))
	set := testenv.AStatefulSet("web", 2).In(ns)
	broken := aPod(set, 0)
	broken.Status.Conditions[0].Status = corev1.ConditionFalse
	put(t, set.StatefulSet, broken, aPod(set, 1))
	if err := evictAs(t.Context(), env.Client, broken); err != nil {
		t.Errorf("eviction: %v", err)
	}
}
