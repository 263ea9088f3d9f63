package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fate is a row of the table "What becomes of a pod with its node" in
// docs/design/0003-pin.md.
type fate struct {
	// spec is of the pod, besides its container.
	spec string
	// strike returns when the pod's successor may be on its way.
	strike func(t *testing.T, home corev1.Pod)
	heal   func(t *testing.T, node string)
	// down tells that the node is off between the two, and says nothing.
	down bool
}

// fates are the ways to strike a node so that it cannot take a pod back.
func fates(t *testing.T) map[string]fate {
	t.Helper()
	room := "      resources: {requests: {cpu: " + mostOfANode(t) + "}}\n"
	return map[string]fate{
		"cordoned": {
			strike: func(t *testing.T, home corev1.Pod) {
				kubectl(t, "cordon", home.Spec.NodeName)
				stays(t, home)
				kubectl(t, "delete", "pod", home.Name)
			},
			heal: uncordon,
		},
		"tainted": {
			strike: func(t *testing.T, home corev1.Pod) {
				kubectl(t, "taint", "node", home.Spec.NodeName, "kept=away:NoSchedule")
				stays(t, home)
				kubectl(t, "delete", "pod", home.Name)
			},
			heal: func(t *testing.T, node string) { kubectl(t, "taint", "node", node, "kept-") },
		},
		"drained": { // which is to cordon it, and then to ask for the eviction of each pod
			strike: func(t *testing.T, home corev1.Pod) {
				kubectl(t, "drain", home.Spec.NodeName, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=90s")
			},
			heal: uncordon,
		},
		"full": {
			spec: room,
			strike: func(t *testing.T, home corev1.Pod) {
				goAway(t, "full")
				apply(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: filler}\nspec:\n"+room+
					"      nodeSelector: {kubernetes.io/hostname: "+home.Spec.NodeName+"}\n"+
					"      containers: [{name: main, image: \"cilium/echoserver:latest\", imagePullPolicy: IfNotPresent}]\n")
				kubectl(t, "wait", "pod/filler", "--for=condition=Ready", "--timeout=1m")
				kubectl(t, "scale", "statefulset", "full", "--replicas=1")
			},
			heal: func(t *testing.T, _ string) { kubectl(t, "delete", "pod", "filler", "--grace-period=1") },
		},
		"silent": { // Kubernetes holds it for Ready still
			strike: func(t *testing.T, home corev1.Pod) {
				powerOff(t, home.Spec.NodeName)
				overdue(t, home.Spec.NodeName)
				kubectl(t, "delete", "pod", home.Name, "--force", "--grace-period=0")
			},
			heal: powerOn,
			down: true,
		},
		"not ready": {
			spec: "      tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 1}]\n",
			strike: func(t *testing.T, home corev1.Pod) {
				powerOff(t, home.Spec.NodeName)
				lingers(t, home)
				kubectl(t, "delete", "pod", home.Name, "--force", "--grace-period=0")
			},
			heal: powerOn,
			down: true,
		},
		"out of service": {
			strike: func(t *testing.T, home corev1.Pod) {
				powerOff(t, home.Spec.NodeName)
				kubectl(t, "taint", "node", home.Spec.NodeName, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
			},
			heal: func(t *testing.T, node string) {
				powerOn(t, node)
				kubectl(t, "taint", "node", node, "node.kubernetes.io/out-of-service-")
			},
			down: true,
		},
		"deleted": {
			strike: func(t *testing.T, home corev1.Pod) {
				powerOff(t, home.Spec.NodeName)
				kubectl(t, "delete", "node", home.Spec.NodeName)
				hidden(t, home)
			},
			heal: bringBack,
			down: true,
		},
	}
}

// While its node cannot take it, a pod runs elsewhere at once; the node keeps its addresses
// until their time is over. When the node is well again, the pod stays where it is by then.
func TestNodeFate(t *testing.T) {
	var returned []blow
	all := fates(t)
	for _, down := range []bool{true, false} { // a node that comes back needs a minute
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
		b.keeps(t)
	}
}

// run strikes the node of a set of that name, and heals it.
func (f fate) run(t *testing.T, name string) blow {
	t.Helper()
	apply(t, strings.Replace(set(name, 1, retain, "10"), "    spec:\n", "    spec:\n"+f.spec, 1))
	b := blow{home: pods(t, name, 1)[name+"-0"], struck: time.Now()}
	healed := false
	heal := func() {
		if !healed {
			healed = true
			f.heal(t, b.home.Spec.NodeName)
		}
	}
	t.Cleanup(heal)
	f.strike(t, b.home)
	startsElsewhere(t, b.home)
	away := pods(t, name, 1)
	var until time.Time
	if !f.down {
		until = b.keeps(t)
	}
	heal()
	if err := errors.Join(theBed.Cluster.WaitReady(t.Context(), time.Minute), theBed.AwaitLimpet(t.Context())); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "delete", "pod", b.home.Name)
	sameHomes(t, away, pods(t, name, 1))
	if !f.down {
		b.keepsUntil(t, until)
	}
	return b
}

// A pod outlives a restart of its node: the same pod, with its containers started again,
// has the same addresses, which are nobody else's in between.
func TestARestartOfTheNode(t *testing.T) {
	apply(t, set("outlives", 1, retain, "10"))
	before := pods(t, "outlives", 1)["outlives-0"]
	powerOff(t, before.Spec.NodeName)
	powerOn(t, before.Spec.NodeName)
	await(t, time.Minute, "its containers to be started again", func(ctx context.Context) (bool, string) {
		p, err := theBed.Client.CoreV1().Pods("default").Get(ctx, before.Name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		c := p.Status.ContainerStatuses
		return len(c) == 1 && c[0].RestartCount > 0 && c[0].Ready, fmt.Sprintf("%+v", c)
	})
	after := pods(t, "outlives", 1)["outlives-0"]
	if after.UID != before.UID || after.Spec.NodeName != before.Spec.NodeName || ips(after) != ips(before) {
		t.Errorf("was %s on %s with %s, is %s on %s with %s",
			before.UID, before.Spec.NodeName, ips(before), after.UID, after.Spec.NodeName, ips(after))
	}
	attached(t, after)
}

// A pod that was deleted by force while its node was silent, for a moment as it turns out,
// waits for the verdict, and comes home to its addresses.
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
	overdue(t, home.Spec.NodeName)
	kubectl(t, "delete", "pod", home.Name, "--force", "--grace-period=0")
	await(t, 20*time.Second, "a successor behind a gate", func(ctx context.Context) (bool, string) {
		p, err := theBed.Client.CoreV1().Pods("default").Get(ctx, home.Name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return p.UID != home.UID && len(p.Spec.SchedulingGates) > 0, fmt.Sprint(p.UID, p.Spec.SchedulingGates)
	})
	back()
	after := pods(t, "heard", 1)
	sameHomes(t, before, after)
	attached(t, after["heard-0"])
	if err := errors.Join(theBed.Cluster.WaitReady(t.Context(), time.Minute), theBed.AwaitLimpet(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// blow is a pod whose node was struck, and when.
type blow struct {
	home   corev1.Pod
	struck time.Time
}

// keeps sees that the node keeps the pod's addresses for ten minutes from its end, and
// returns until when. A node that was down learns of the end when it is back.
func (b blow) keeps(t *testing.T) time.Time {
	t.Helper()
	until := reserved(t, b.home)
	if until.Sub(b.struck) < 10*time.Minute-time.Second || time.Until(until) > 10*time.Minute+time.Second {
		t.Errorf("the node was struck at %s, and keeps the addresses until %s, want for 10m", b.struck, until)
	}
	return until
}

// keepsUntil sees that nothing made the reservation longer or shorter.
func (b blow) keepsUntil(t *testing.T, until time.Time) {
	t.Helper()
	if again := reserved(t, b.home); again.Sub(until).Abs() > time.Second {
		t.Errorf("%s kept the addresses until %s, and keeps them until %s now", b.home.Spec.NodeName, until, again)
	}
}

// startsElsewhere waits until a pod's successor is on another node.
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
