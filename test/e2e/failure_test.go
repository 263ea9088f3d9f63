package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// failure is a row of the table "What becomes of a pod with its node" in
// docs/operate/promises.md: a way in which a node becomes unable to take a pod back.
type failure struct {
	// spec holds fields of the pod's spec other than the container.
	spec string
	// cause makes the node fail and the pod be rebuilt. It returns when the rebuild may begin.
	cause  func(t *testing.T, home corev1.Pod)
	repair func(t *testing.T, node string)
	// down is true when the node is off between cause and repair.
	down bool
}

// failures returns the failures by name.
func failures(t *testing.T) map[string]failure {
	t.Helper()
	room := "      resources: {requests: {cpu: " + mostOfANode(t) + "}}\n"
	return map[string]failure{
		"cordoned": {
			cause: func(t *testing.T, home corev1.Pod) {
				kubectl(t, "cordon", home.Spec.NodeName)
				keepsRunning(t, home)
				kubectl(t, "delete", "pod", home.Name)
			},
			repair: uncordon,
		},
		"tainted": {
			cause: func(t *testing.T, home corev1.Pod) {
				kubectl(t, "taint", "node", home.Spec.NodeName, "kept=away:NoSchedule")
				keepsRunning(t, home)
				kubectl(t, "delete", "pod", home.Name)
			},
			repair: func(t *testing.T, node string) { kubectl(t, "taint", "node", node, "kept-") },
		},
		"drained": { // drain cordons the node and evicts each pod
			cause: func(t *testing.T, home corev1.Pod) {
				kubectl(t, "drain", home.Spec.NodeName, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=90s")
			},
			repair: uncordon,
		},
		"full": {
			spec: room,
			cause: func(t *testing.T, home corev1.Pod) {
				scaleToZero(t, "full")
				apply(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: filler}\nspec:\n"+room+
					"      nodeSelector: {kubernetes.io/hostname: "+home.Spec.NodeName+"}\n"+
					"      containers: [{name: main, image: \"cilium/echoserver:latest\", imagePullPolicy: IfNotPresent}]\n")
				kubectl(t, "wait", "pod/filler", "--for=condition=Ready", "--timeout=1m")
				kubectl(t, "scale", "statefulset", "full", "--replicas=1")
			},
			repair: func(t *testing.T, _ string) { kubectl(t, "delete", "pod", "filler", "--grace-period=1") },
		},
		"deleted": {
			cause: func(t *testing.T, home corev1.Pod) {
				powerOff(t, home.Spec.NodeName)
				kubectl(t, "delete", "node", home.Spec.NodeName)
				notShown(t, home)
			},
			repair: joinAgain,
			down:   true,
		},
	}
}

// TestNodeFate checks that a pod starts on another node while its node cannot take it, and
// that the node keeps the addresses reserved until the deadline. The pod stays on the other
// node after its node has recovered. -short leaves it at a drain.
func TestNodeFate(t *testing.T) {
	var returned []affected
	all := failures(t)
	if testing.Short() {
		all = map[string]failure{"drained": all["drained"]}
	} else {
		returned = outage(t)
	}
	for _, down := range []bool{true, false} { // a node needs a minute to recover
		for name, f := range all {
			if f.down != down {
				continue
			}
			t.Run(name, func(t *testing.T) {
				b := f.run(t, strings.ReplaceAll(name, " ", "-"))
				if down {
					returned = append(returned, b)
				}
			})
		}
	}
	for _, b := range returned {
		b.staysReserved(t)
	}
}

// run makes the node of a StatefulSet with this name fail, and repairs the node.
func (f failure) run(t *testing.T, name string) affected {
	t.Helper()
	apply(t, strings.Replace(set(name, 1, retain, "10"), "    spec:\n", "    spec:\n"+f.spec, 1))
	b := affected{home: pods(t, name, 1)[name+"-0"], failedAt: time.Now()}
	repaired := false
	repair := func() {
		if !repaired {
			repaired = true
			f.repair(t, b.home.Spec.NodeName)
		}
	}
	t.Cleanup(repair)
	f.cause(t, b.home)
	startsElsewhere(t, b.home)
	away := pods(t, name, 1)
	var until time.Time
	if !f.down {
		until = b.staysReserved(t)
	}
	repair()
	if err := errors.Join(theBed.Cluster.WaitReady(t.Context(), 3*time.Minute), theBed.AwaitLimpet(t.Context())); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "delete", "pod", b.home.Name)
	kept(t, away, pods(t, name, 1))
	if !f.down {
		b.staysReservedUntil(t, until)
	}
	return b
}

// TestARestartOfTheNode checks that pods have their addresses after a restart of their node: the same pod objects, with
// restarted containers. Those of a Deployment ask for nothing.
func TestARestartOfTheNode(t *testing.T) {
	apply(t, set("outlives", 1, retain, "10"))
	node := pods(t, "outlives", 1)["outlives-0"].Spec.NodeName
	const plain = 8
	apply(t, fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: asks-nothing}
spec:
  replicas: %d
  selector: {matchLabels: {app: asks-nothing}}
  template:
    metadata: {labels: {app: asks-nothing}}
    spec:
      nodeSelector: {kubernetes.io/hostname: %s}
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: "cilium/echoserver:latest", imagePullPolicy: IfNotPresent}]
`, plain, node))
	all := func() map[string]corev1.Pod {
		found := pods(t, "asks-nothing", plain)
		maps.Copy(found, pods(t, "outlives", 1))
		return found
	}
	before := all()
	powerOff(t, node)
	powerOn(t, node)
	await(t, 2*time.Minute, "containers to be started again", func(ctx context.Context) (bool, string) {
		for name := range before {
			p, err := theBed.Client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, err.Error()
			}
			if c := p.Status.ContainerStatuses; len(c) != 1 || c[0].RestartCount == 0 || !c[0].Ready {
				return false, fmt.Sprintf("%s: %+v", name, c)
			}
		}
		return true, ""
	})
	for name, after := range all() {
		was := before[name]
		if after.UID != was.UID || after.Spec.NodeName != was.Spec.NodeName || ips(after) != ips(was) {
			t.Errorf("%s was %s on %s with %s, is %s on %s with %s",
				name, was.UID, was.Spec.NodeName, ips(was), after.UID, after.Spec.NodeName, ips(after))
		}
		if name == "outlives-0" {
			attached(t, after)
		}
	}
}

// TestANodeThatIsHeardAgain force-deletes a pod while its node sends no heartbeats. The
// rebuilt pod waits behind a scheduling gate. It returns to the node and its addresses when
// the node is back.
func TestANodeThatIsHeardAgain(t *testing.T) {
	apply(t, set("heard", 1, retain, "10"))
	before := pods(t, "heard", 1)
	home := before["heard-0"]
	on := false
	back := func() {
		if !on {
			on = true
			powerOn(t, home.Spec.NodeName)
		}
	}
	t.Cleanup(back)
	powerOff(t, home.Spec.NodeName)
	leaseOverdue(t, home.Spec.NodeName)
	kubectl(t, "delete", "pod", home.Name, "--force", "--grace-period=0")
	await(t, time.Minute, "a rebuilt pod behind a scheduling gate", func(ctx context.Context) (bool, string) {
		p, err := theBed.Client.CoreV1().Pods("default").Get(ctx, home.Name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return p.UID != home.UID && len(p.Spec.SchedulingGates) > 0, fmt.Sprint(p.UID, p.Spec.SchedulingGates)
	})
	back()
	after := pods(t, "heard", 1)
	kept(t, before, after)
	attached(t, after["heard-0"])
	if err := errors.Join(theBed.Cluster.WaitReady(t.Context(), 3*time.Minute), theBed.AwaitLimpet(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// affected is a pod whose node failed, and when.
type affected struct {
	home     corev1.Pod
	failedAt time.Time
}

// staysReserved checks that the node keeps the pod's addresses for ten minutes from the pod's
// end, and returns the deadline. A node that was down learns of the end when it is back.
func (b affected) staysReserved(t *testing.T) time.Time {
	t.Helper()
	until := reserved(t, b.home)
	if until.Sub(b.failedAt) < 10*time.Minute-time.Second || time.Until(until) > 10*time.Minute+time.Second {
		t.Errorf("the node failed at %s and keeps the addresses until %s, want 10m", b.failedAt, until)
	}
	return until
}

// staysReservedUntil checks that the deadline is unchanged.
func (b affected) staysReservedUntil(t *testing.T, until time.Time) {
	t.Helper()
	if again := reserved(t, b.home); again.Sub(until).Abs() > time.Second {
		t.Errorf("%s kept the addresses until %s before, and until %s now", b.home.Spec.NodeName, until, again)
	}
}

// startsElsewhere waits until the rebuilt pod is on another node.
func startsElsewhere(t *testing.T, home corev1.Pod) {
	t.Helper()
	await(t, 3*time.Minute, "the pod to start on another node", func(ctx context.Context) (bool, string) {
		p, err := theBed.Client.CoreV1().Pods("default").Get(ctx, home.Name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return p.UID != home.UID && p.DeletionTimestamp == nil && p.Spec.NodeName != "" && p.Spec.NodeName != home.Spec.NodeName,
			fmt.Sprintf("%s on %q, deletion %v", p.Status.Phase, p.Spec.NodeName, p.DeletionTimestamp)
	})
}
