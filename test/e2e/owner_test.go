package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// owned returns the pod template of a workload whose pods have an owner.
func owned(name string) string {
	return fmt.Sprintf(`
    metadata:
      labels: {app: %s}
      annotations: {limpet.dev/keep: 10m, limpet.dev/owner: db}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: "cilium/echoserver:latest", imagePullPolicy: IfNotPresent}]
`, name)
}

// TestAnOwnerKeepsItsAddressUnderOtherNames rebuilds the pod of a Deployment with one replica, by a deletion and by a rollout.
// Each later pod has another name, and the same node and address.
func TestAnOwnerKeepsItsAddressUnderOtherNames(t *testing.T) {
	for name, strategy := range map[string]string{
		"recreate":  "{type: Recreate}",
		"no-surge":  "{type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}",
		"with-room": "{type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 100%}}",
	} {
		t.Run(name, func(t *testing.T) {
			apply(t, fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: 1
  strategy: %[2]s
  selector: {matchLabels: {app: %[1]s}}
  template:%[3]s`, name, strategy, owned(name)))
			first := theOne(t, name, "")
			awaitShown(t, "apps/Deployment/"+name+"/db", first)
			kubectl(t, "delete", "pod", first.Name)
			second := theOne(t, name, first.Name)
			sameHome(t, first, second)
			awaitShown(t, "apps/Deployment/"+name+"/db", second)
			kubectl(t, "rollout", "restart", "deployment", name)
			kubectl(t, "rollout", "status", "deployment", name)
			sameHome(t, first, theOne(t, name, second.Name))
		})
	}
}

// TestAJobThatIsRetriedKeepsItsAddress has a Job whose pods fail: the node ends each after some seconds.
func TestAJobThatIsRetriedKeepsItsAddress(t *testing.T) {
	apply(t, `apiVersion: batch/v1
kind: Job
metadata: {name: retried}
spec:
  backoffLimit: 5
  template:`+owned("retried")+"      restartPolicy: Never\n      activeDeadlineSeconds: 20\n")
	first := theOne(t, "retried", "")
	awaitShown(t, "batch/Job/retried/db", first)
	sameHome(t, first, theOne(t, "retried", first.Name))
}

// TestARestoredPodKeepsItsAddress makes a pod without a controller again, under another name.
func TestARestoredPodKeepsItsAddress(t *testing.T) {
	restored := func(name string) corev1.Pod {
		apply(t, fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s
  labels: {app: restored}
  annotations: {limpet.dev/keep: 10m, limpet.dev/owner: db}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: "cilium/echoserver:latest", imagePullPolicy: IfNotPresent}]
`, name))
		return theOne(t, "restored", "")
	}
	first := restored("before")
	awaitShown(t, "///db", first)
	kubectl(t, "delete", "pod", first.Name)
	sameHome(t, first, restored("after"))
}

// TestASecondPodOfAnOwnerIsTold scales a Deployment to two: one pod has the address of the owner, and the other an event.
func TestASecondPodOfAnOwnerIsTold(t *testing.T) {
	apply(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: two}\nspec:\n  replicas: 1\n  selector: {matchLabels: {app: two}}\n  template:"+owned("two"))
	first := theOne(t, "two", "")
	kubectl(t, "scale", "deployment", "two", "--replicas=2")
	second := theOne(t, "two", first.Name)
	if first.Status.PodIP == second.Status.PodIP {
		t.Errorf("both have %s", first.Status.PodIP)
	}
	await(t, time.Minute, "an event about the second pod", func(ctx context.Context) (bool, string) {
		told, err := theBed.Kubectl(ctx, "get", "events", "--field-selector", "reason=NotOwner", "-o", "jsonpath={.items[*].involvedObject.name}")
		return strings.TrimSpace(told) == second.Name, fmt.Sprint(told, err)
	})
}

// theOne waits for the one living pod of a workload, which is Ready and not the former one.
func theOne(t *testing.T, name, former string) (one corev1.Pod) {
	t.Helper()
	await(t, 3*time.Minute, "a new pod of "+name, func(ctx context.Context) (bool, string) {
		list, err := theBed.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			return false, err.Error()
		}
		said := ""
		for _, p := range list.Items {
			said += fmt.Sprintf("%s %s on %s; ", p.Name, p.Status.Phase, p.Spec.NodeName)
			if bed.Ready(&p) && p.DeletionTimestamp == nil && p.Name != former {
				one = p
				return true, ""
			}
		}
		return false, said
	})
	return one
}

// awaitShown waits until the node of an owner's pod shows the addresses.
func awaitShown(t *testing.T, owner string, pod corev1.Pod) {
	t.Helper()
	await(t, time.Minute, "an IPReservation of "+owner, func(ctx context.Context) (bool, string) {
		shown, err := theBed.Kubectl(ctx, "get", "ipreservations", "-o", fmt.Sprintf(`jsonpath={.items[?(@.status.pod==%q)].status.podUID}`, owner))
		return shown == string(pod.UID), fmt.Sprint(shown, err)
	})
}

func sameHome(t *testing.T, first, second corev1.Pod) {
	t.Helper()
	if first.Name == second.Name || first.Status.PodIP != second.Status.PodIP || first.Spec.NodeName != second.Spec.NodeName {
		t.Errorf("%s had %s on %s, and %s has %s on %s", first.Name, first.Status.PodIP, first.Spec.NodeName, second.Name, second.Status.PodIP, second.Spec.NodeName)
	}
}
