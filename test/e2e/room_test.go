package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// half is what more than half of a node's CPUs is: a node has room for one pod that asks for it.
const half = "1100m"

// large gives the pods of a manifest so many CPUs that a node has room for one, and a PriorityClass.
func large(manifest, class string) string {
	spec := fmt.Sprintf("    spec:\n      priorityClassName: %q\n", class)
	return strings.Replace(strings.Replace(manifest, "    spec:\n", spec, 1), "{name: main,", "{name: main, resources: {requests: {cpu: "+half+"}},", 1)
}

// rivals is a Deployment of pods that wait for the room of another pod.
func rivals(count int) string {
	return large(fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: rivals}
spec:
  replicas: %d
  selector: {matchLabels: {app: rivals}}
  template:
    metadata:
      labels: {app: rivals}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: "cilium/echoserver:latest", imagePullPolicy: IfNotPresent}]
`, count), "")
}

// TestTheRoomOfAPodThatIsRebuilt deletes pods of three full nodes, without and with other pods that wait for room. Kubernetes
// frees the room of a pod with the pod, before there is a successor. So a pod that waits takes the room, and the pod returns
// when that one leaves. The PriorityClass of a StatefulSet gives the room back at once.
func TestTheRoomOfAPodThatIsRebuilt(t *testing.T) {
	long(t)
	apply(t, "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: returns}\nvalue: 1000\n")
	for _, tc := range []struct {
		name, class string
		rivals      int
		returns     bool
	}{
		{"no pod waits", "", 0, true},
		{"four pods wait", "", 4, false},
		{"four pods of a lower priority wait", "returns", 4, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			name := fmt.Sprintf("room-%d%s", tc.rivals, tc.class)
			apply(t, large(set(name, 3, retain, "10"), tc.class))
			before := pods(t, name, 3)
			if tc.rivals > 0 {
				apply(t, rivals(tc.rivals))
				awaitRefused(t, tc.rivals)
			}
			returned := 0
			for pod, was := range before {
				now := rebuildOf(t, was)
				t.Logf("%s: %s", pod, now)
				if now.bound.IsZero() {
					kubectl(t, "scale", "deployment", "rivals", "--replicas=0")
				} else {
					returned++
				}
				kept(t, map[string]corev1.Pod{pod: was}, pods(t, name, len(before)))
				if tc.rivals > 0 {
					kubectl(t, "scale", "deployment", "rivals", fmt.Sprint("--replicas=", tc.rivals))
					awaitRefused(t, tc.rivals)
				}
			}
			t.Logf("%d of %d pods returned at once", returned, len(before))
			if tc.returns != (returned == len(before)) {
				t.Errorf("%d of %d pods returned at once, want all: %t", returned, len(before), tc.returns)
			}
		})
	}
}

// awaitRefused waits until no rival runs, and the scheduler has refused each.
func awaitRefused(t *testing.T, want int) {
	t.Helper()
	await(t, 2*time.Minute, "rivals that wait for room", func(ctx context.Context) (bool, string) {
		list, err := theBed.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=rivals"})
		if err != nil {
			return false, err.Error()
		}
		waiting := 0
		for _, p := range list.Items {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable && p.Spec.NodeName == "" && p.DeletionTimestamp == nil {
					waiting++
				}
			}
		}
		return waiting == want && len(list.Items) == want, fmt.Sprintf("%d of %d pods wait", waiting, len(list.Items))
	})
}

// passage is when a pod went and its successor came.
type passage struct{ gone, created, nominated, bound, refused, ready time.Time }

func (p passage) String() string {
	after := func(at time.Time) string {
		if at.IsZero() {
			return "-"
		}
		return fmt.Sprint(at.Sub(p.gone).Milliseconds())
	}
	return fmt.Sprintf("ms after the old pod: created %s, nominated %s, bound %s, refused %s, Ready %s",
		after(p.created), after(p.nominated), after(p.bound), after(p.refused), after(p.ready))
}

// rebuildOf deletes a pod, and follows its successor until that is Ready, or was refused for some seconds.
func rebuildOf(t *testing.T, pod corev1.Pod) (p passage) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events, err := theBed.Client.CoreV1().Pods(pod.Namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + pod.Name, ResourceVersion: pod.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	if err := theBed.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	note := func(at *time.Time, is bool) {
		if is && at.IsZero() {
			*at = time.Now()
		}
	}
	var enough <-chan time.Time
	for {
		select {
		case e := <-events.ResultChan():
			now, ok := e.Object.(*corev1.Pod)
			if !ok {
				t.Fatalf("watch of %s: %+v", pod.Name, e)
			}
			if now.UID == pod.UID {
				note(&p.gone, e.Type == watch.Deleted)
				continue
			}
			note(&p.created, true)
			note(&p.nominated, now.Status.NominatedNodeName != "")
			note(&p.bound, now.Spec.NodeName != "")
			for _, c := range now.Status.Conditions {
				note(&p.refused, c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable)
			}
			if note(&p.ready, bed.Ready(now)); !p.ready.IsZero() {
				return p
			}
			if !p.refused.IsZero() && enough == nil {
				enough = time.After(10 * time.Second)
			}
		case <-enough:
			return p
		case <-ctx.Done():
			t.Fatalf("%s is not rebuilt: %s", pod.Name, p)
		}
	}
}
