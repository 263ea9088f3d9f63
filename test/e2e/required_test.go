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

// A pod that must go to its node waits while that is cordoned, and everybody can read for
// what; it comes home when the node is well again.
func TestARequiredPodWaitsForItsNode(t *testing.T) {
	before, home := bound(t)
	kubectl(t, "cordon", home.Spec.NodeName)
	t.Cleanup(func() { uncordon(t, home.Spec.NodeName) })
	kubectl(t, "delete", "pod", home.Name)
	waits(t, home)
	kubectl(t, "uncordon", home.Spec.NodeName)
	sameHomes(t, before, pods(t, "bound", 1))
	await(t, 30*time.Second, "nobody to be waiting", func(ctx context.Context) (bool, string) {
		c, err := waiting(ctx)
		return strings.HasPrefix(c, "False NoneWaits "), fmt.Sprint(c, err)
	})
}

// A required pod is let go as its user said, stays where it is then, and leaves its
// reservation behind.
func TestARequiredPodIsLetGo(t *testing.T) {
	cases := map[string]struct {
		annotation string
		late       bool // it waits already
	}{
		"after a time": {"limpet.dev/release-after=3s", true},
		"at a fate":    {"limpet.dev/release-on=deleted,cordoned", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, home := bound(t)
			b := blow{home, time.Now()}
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
				told(t, "Released", state(t), "pod "+home.Name+" was let go from kubernetes.io/hostname="+home.Spec.NodeName)
			}
			away := pods(t, "bound", 1)
			until := b.keeps(t)
			kubectl(t, "uncordon", home.Spec.NodeName)
			kubectl(t, "delete", "pod", home.Name)
			sameHomes(t, away, pods(t, "bound", 1))
			b.keepsUntil(t, until)
		})
	}
}

// bound makes a pod that must come back to its node.
func bound(t *testing.T) (map[string]corev1.Pod, corev1.Pod) {
	t.Helper()
	apply(t, strings.Replace(set("bound", 1, retain, "10"), "kruise.io/preferred-", "kruise.io/required-", 1))
	all := pods(t, "bound", 1)
	return all, all["bound-0"]
}

// waits sees that a pod is on no node, and that its event and the condition of its
// PersistentPodState name the node and what would help.
func waits(t *testing.T, home corev1.Pod) {
	t.Helper()
	what := []string{"node " + home.Spec.NodeName + " is cordoned", "uncordon it", "PersistentPodState bound with limpet.dev/release-after or limpet.dev/release-on"}
	await(t, 30*time.Second, "the condition to name node and remedy", func(ctx context.Context) (bool, string) {
		c, err := waiting(ctx)
		return strings.HasPrefix(c, "True NodeCordoned ") && containsAll(c, append(what, home.Name)), fmt.Sprint(c, err)
	})
	pod, err := theBed.Client.CoreV1().Pods("default").Get(t.Context(), home.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pod.UID == home.UID || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		t.Errorf("pod %s on %q, deletion %v, want a successor that is nowhere", pod.UID, pod.Spec.NodeName, pod.DeletionTimestamp)
	}
	told(t, "WaitingForPlace", string(pod.UID), what...)
}

// told waits until a warning about an object says all that.
func told(t *testing.T, reason, uid string, what ...string) {
	t.Helper()
	await(t, 30*time.Second, "event "+reason, func(ctx context.Context) (bool, string) {
		out, err := theBed.Kubectl(ctx, "get", "events", "--field-selector=type=Warning,reason="+reason+",involvedObject.uid="+uid,
			"-o", "jsonpath={.items[*].message}")
		return containsAll(out, what), fmt.Sprint(out, err)
	})
}

// state is the UID of the PersistentPodState of bound.
func state(t *testing.T) string {
	t.Helper()
	uid, err := theBed.Kubectl(t.Context(), "get", "persistentpodstate", "bound", "-o", "jsonpath={.metadata.uid}")
	if err != nil {
		t.Fatal(err)
	}
	return uid
}

// waiting is the condition of the PersistentPodState of bound.
func waiting(ctx context.Context) (string, error) {
	return theBed.Kubectl(ctx, "get", "persistentpodstate", "bound",
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
