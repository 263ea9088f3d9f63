package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAPodOfANodeThatFellSilentBeforeItRan deletes a pod by force as soon as its kubelet has died.
// The next pod requires its address. It is bound to the silent node and hangs: event and condition say so. With the
// consent of its user, and as its budget allows it, it is deleted and starts elsewhere.
func TestAPodOfANodeThatFellSilentBeforeItRan(t *testing.T) {
	long(t)
	apply(t, "apiVersion: policy.kruise.io/v1alpha1\nkind: PodUnavailableBudget\nmetadata: {name: strands}\n"+
		"spec: {selector: {matchLabels: {app: strands}}, maxUnavailable: 1}\n")
	home := onANodeWithoutController(t, "strands")
	node := home.Spec.NodeName
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
		defer cancel()
		if err := theBed.Cluster.StartService(ctx, node, "kubelet"); err != nil {
			t.Error(err)
		}
		if err := theBed.Cluster.WaitReady(ctx, 3*time.Minute); err != nil {
			t.Error(err)
		}
	})
	if err := theBed.Cluster.StopService(t.Context(), node, "kubelet"); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "delete", "pod", home.Name, "--force", "--grace-period=0")
	var hangs corev1.Pod
	await(t, time.Minute, "the next pod to be bound to the silent node", func(ctx context.Context) (bool, string) {
		p, err := theBed.Client.CoreV1().Pods("default").Get(ctx, home.Name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		hangs = *p
		return p.UID != home.UID && p.Spec.NodeName == node, fmt.Sprintf("%s on %q", p.UID, p.Spec.NodeName)
	})
	await(t, 90*time.Second, "the condition to name pod and node", func(ctx context.Context) (bool, string) {
		c, err := waiting(ctx, "strands")
		return strings.HasPrefix(c, "True NotStarted ") && containsAll(c, []string{home.Name, node}), fmt.Sprint(c, err)
	})
	warned(t, "NotStarted", string(hangs.UID), "node "+node+", which is silent", "bring node "+node+" back", "limpet.dev/leave-on=unstarted")
	if p, err := theBed.Client.CoreV1().Pods("default").Get(t.Context(), home.Name, metav1.GetOptions{}); err != nil || p.UID != hangs.UID {
		t.Errorf("pod %s is deleted without the consent of its user: %v", hangs.UID, err)
	}

	kubectl(t, "annotate", "persistentpodstate", "strands", "limpet.dev/leave-on=unstarted")
	startsElsewhere(t, hangs)
	pods(t, "strands", 1)
	warned(t, "Released", state(t, "strands"), "deleted by force")
}

// onANodeWithoutController creates a StatefulSet of one pod, which asks for a reservation, on a
// node that runs no replica of the controller.
func onANodeWithoutController(t *testing.T, name string) corev1.Pod {
	t.Helper()
	for _, p := range controllers(t) {
		kubectl(t, "cordon", p.Spec.NodeName)
		t.Cleanup(func() { uncordon(t, p.Spec.NodeName) })
	}
	apply(t, set(name, 1, retain, "10", "limpet.dev/retention", "required"))
	home := pods(t, name, 1)[name+"-0"]
	for _, p := range controllers(t) {
		uncordon(t, p.Spec.NodeName)
		if p.Spec.NodeName == home.Spec.NodeName {
			t.Fatalf("%s is on cordoned node %s", home.Name, home.Spec.NodeName)
		}
	}
	return home
}
