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

// TestARequiredPodWaitsForItsNode checks that a pod with a required node stays Pending while
// the node is cordoned, that event and condition say why, and that it returns after uncordon.
func TestARequiredPodWaitsForItsNode(t *testing.T) {
	before, home := requiredPod(t)
	kubectl(t, "cordon", home.Spec.NodeName)
	t.Cleanup(func() { uncordon(t, home.Spec.NodeName) })
	kubectl(t, "delete", "pod", home.Name)
	waits(t, home)
	kubectl(t, "uncordon", home.Spec.NodeName)
	kept(t, before, pods(t, "bound", 1))
	await(t, time.Minute, "no pod to be waiting", func(ctx context.Context) (bool, string) {
		c, err := waiting(ctx, "bound")
		return strings.HasPrefix(c, "False NoneWaits "), fmt.Sprint(c, err)
	})
}

// TestARequiredPodIsLetGo checks both ways to release a pod from its required node. The pod
// stays on the other node, and its addresses stay reserved on the first one.
func TestARequiredPodIsLetGo(t *testing.T) {
	cases := map[string]struct {
		annotation string
		late       bool // the annotation is set while the pod waits
	}{
		"leave-after": {"limpet.dev/leave-after=3s", true},
		"release-on":  {"limpet.dev/release-on=deleted,cordoned", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, home := requiredPod(t)
			b := affected{home, time.Now()}
			allow := func() { kubectl(t, "annotate", "persistentpodstate", "bound", tc.annotation) }
			if !tc.late {
				allow()
			}
			kubectl(t, "cordon", home.Spec.NodeName)
			t.Cleanup(func() { uncordon(t, home.Spec.NodeName) })
			kubectl(t, "delete", "pod", home.Name)
			if tc.late {
				waits(t, home)
				allow()
			}
			startsElsewhere(t, home)
			if tc.late {
				warned(t, "Released", state(t, "bound"), "pod "+home.Name+" was released from kubernetes.io/hostname="+home.Spec.NodeName)
			}
			away := pods(t, "bound", 1)
			until := b.staysReserved(t)
			kubectl(t, "uncordon", home.Spec.NodeName)
			kubectl(t, "delete", "pod", home.Name)
			kept(t, away, pods(t, "bound", 1))
			b.staysReservedUntil(t, until)
		})
	}
}

// requiredPod creates a StatefulSet whose pod must return to its node.
func requiredPod(t *testing.T) (map[string]corev1.Pod, corev1.Pod) {
	t.Helper()
	apply(t, strings.Replace(set("bound", 1, retain, "10"), "kruise.io/preferred-", "kruise.io/required-", 1))
	all := pods(t, "bound", 1)
	return all, all["bound-0"]
}

// waits checks that a pod has no node, and that its event and the condition of its
// PersistentPodState name the node and what would help.
func waits(t *testing.T, home corev1.Pod) {
	t.Helper()
	what := []string{"node " + home.Spec.NodeName + " is cordoned", "kubectl uncordon " + home.Spec.NodeName, "persistentpodstate bound limpet.dev/leave-on=cordoned"}
	await(t, 2*time.Minute, "the condition to name node and remedy", func(ctx context.Context) (bool, string) {
		c, err := waiting(ctx, "bound")
		return strings.HasPrefix(c, "True NodeCordoned ") && containsAll(c, append(what, home.Name)), fmt.Sprint(c, err)
	})
	pod, err := theBed.Client.CoreV1().Pods("default").Get(t.Context(), home.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pod.UID == home.UID || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		t.Errorf("pod %s on %q, deletion %v, want a rebuilt pod without a node", pod.UID, pod.Spec.NodeName, pod.DeletionTimestamp)
	}
	warned(t, "WaitingForPlace", string(pod.UID), what...)
}

// warned waits until a warning event about an object contains all parts.
func warned(t *testing.T, reason, uid string, what ...string) {
	t.Helper()
	await(t, time.Minute, "event "+reason, func(ctx context.Context) (bool, string) {
		out, err := theBed.Kubectl(ctx, "get", "events", "--field-selector=type=Warning,reason="+reason+",involvedObject.uid="+uid,
			"-o", "jsonpath={.items[*].message}")
		return containsAll(out, what), fmt.Sprint(out, err)
	})
}

// state returns the UID of a PersistentPodState.
func state(t *testing.T, name string) string {
	t.Helper()
	uid, err := theBed.Kubectl(t.Context(), "get", "persistentpodstate", name, "-o", "jsonpath={.metadata.uid}")
	if err != nil {
		t.Fatal(err)
	}
	return uid
}

// waiting returns the Waiting condition of a PersistentPodState.
func waiting(ctx context.Context, name string) (string, error) {
	return theBed.Kubectl(ctx, "get", "persistentpodstate", name,
		"-o", "jsonpath={range .status.conditions[?(@.type=='Waiting')]}{.status} {.reason} {.message}{end}")
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
