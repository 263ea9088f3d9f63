package tokens_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// No user writes the owner of another controller onto a pod, also while no webhook answers. The owner that the webhook
// completes passes, of each kind of controller.
func TestNobodyTakesTheOwnerOfAnother(t *testing.T) {
	deploy(t)
	ns := env.Namespace(t)
	owner := func(apiVersion, kind, name string) workload.Owner {
		return workload.Owner{Target: workload.NewTarget(apiVersion, kind, name)}
	}
	set, job := appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), batchv1.SchemeGroupVersion.WithKind("Job")
	forged := []string{
		"///db", "apps/Deployment/shop/db", "apps/ReplicaSet/shop-abc/db", "batch/CronJob/shop/db", "/ReplicationController/web/db", "/Pod/web/db",
		"apps/Deployment/web-abc/db", "apps/Deployment/we/db", "batch/CronJob/we/db", "x/apps/Deployment/web/db", "Deployment/web/db", "/",
	}
	for name, tc := range map[string]struct {
		pod   testenv.Pod
		chain []workload.Owner
	}{
		"of a Deployment": {
			testenv.APod("a").Of(&metav1.ObjectMeta{Name: "web-abc", UID: "u"}, set), []workload.Owner{owner("apps/v1", "ReplicaSet", "web-abc"), owner("apps/v1", "Deployment", "web")},
		},
		"of a ReplicaSet with another name": {
			testenv.APod("a").Of(&metav1.ObjectMeta{Name: "other", UID: "u"}, set), []workload.Owner{owner("apps/v1", "ReplicaSet", "other"), owner("apps/v1", "Deployment", "web")},
		},
		"of a ReplicaSet of another kind": {
			testenv.APod("a").Of(&metav1.ObjectMeta{Name: "web-abc", UID: "u"}, set), []workload.Owner{owner("apps/v1", "ReplicaSet", "web-abc"), owner("argoproj.io/v1alpha1", "Rollout", "web")},
		},
		"of a CronJob": {
			testenv.APod("a").Of(&metav1.ObjectMeta{Name: "web-29", UID: "u"}, job), []workload.Owner{owner("batch/v1", "Job", "web-29"), owner("batch/v1", "CronJob", "web")},
		},
		"of a Job": {testenv.APod("a").Of(&metav1.ObjectMeta{Name: "once", UID: "u"}, job), []workload.Owner{owner("batch/v1", "Job", "once")}},
		"of the core group": {
			testenv.APod("a").Of(&metav1.ObjectMeta{Name: "rc", UID: "u"}, corev1.SchemeGroupVersion.WithKind("ReplicationController")),
			[]workload.Owner{owner("v1", "ReplicationController", "rc")},
		},
		"of none": {testenv.APod("a"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			pod := tc.pod.In(ns).With(reservation.OwnerAnnotation, "db").Pod
			pod.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "abc"}
			own := pin.CompleteOwner(pod, tc.chain)
			for _, value := range forged {
				if value != own {
					refused(t, env.Client, denied, create(asking(pod, value)))
				}
			}
			allowed(t, env.Client, create(asking(pod, own)))
			env.Remove(t, pod)
		})
	}
}

// The owner of a pod that exists stays, by whatever write. A user may take it away, or ask for one that no controller gives.
func TestAPodGetsNoOtherOwner(t *testing.T) {
	deploy(t)
	ns := env.Namespace(t)
	pod := testenv.APod("a").In(ns).With(reservation.OwnerAnnotation, "///db").Pod
	unbound := testenv.APod("b").In(ns).Pod
	env.Create(t, pod, unbound)
	with := func(value string) string {
		return fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, reservation.OwnerAnnotation, value)
	}
	bind := func(value string) request {
		b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{reservation.OwnerAnnotation: value}}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
		return subresource(unbound, "binding", b)
	}
	refused(t, env.Client, denied, patch(pod, with(`"///other"`)))
	refused(t, env.Client, denied, patch(unbound, with(`"///db"`)))
	refused(t, env.Client, denied, patchStatus(pod, with(`"///other"`)))
	refused(t, env.Client, denied, bind("///db"))
	allowed(t, env.Client, patchStatus(pod, `{"status":{"message":"m"}}`))
	allowed(t, env.Client, patch(pod, `{"metadata":{"labels":{"a":"b"}}}`))
	allowed(t, env.Client, patch(pod, with(`"other"`)))
	allowed(t, env.Client, patch(pod, with(`null`)))
}

// A pod names no owner of another for its networks, however the name is written. What the webhook writes passes.
func TestNobodyTakesTheOwnerOfAnotherForANetwork(t *testing.T) {
	deploy(t)
	pod := testenv.APod("a").In(env.Namespace(t)).With(reservation.OwnerAnnotation, "///db").Pod
	with := func(key, selection string) *corev1.Pod {
		asks := pod.DeepCopy()
		asks.Annotations[key] = selection
		return asks
	}
	for _, key := range reservation.NetworkSelections {
		for _, name := range []string{
			`limpet.dev/owner`, `Limpet.Dev/Owner`, `limpet.dev\/owner`, `\u006cimpet.dev/owner`, `\u006Cimpet.dev/owner`, `\u004cimpet.dev/owner`, `limpet\u002Edev/owner`, `limpet.dev\u002fowner`,
		} {
			refused(t, env.Client, denied, create(with(key, `[{"name":"n","cni-args":{"`+name+`":"///other"}}]`)))
		}
		refused(t, env.Client, denied, create(with(key, `[{"name":"n","cni-args":{"limpet.dev/owner":"///db","Limpet.dev/owner":"///other"}}]`)))
	}
	allowed(t, env.Client, create(with(reservation.NetworkSelections[0], `[{"name":"n","cni-args":{"color":"\u003cred\u003e\n","limpet.dev/owner":"///db"}}]`)))
	refused(t, env.Client, denied, patch(pod, `{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/networks":"[{\"name\":\"n\",\"cni-args\":{\"limpet.dev/owner\":\"///other\"}}]"}}}`))
	allowed(t, env.Client, patch(pod, `{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/networks":"n@net1"}}}`))
}

// Any pod of the namespace may have the owner name of an IPAMClaim, as any may refer to one, however its networks are written.
func TestAClaimIsThatOfAnyPod(t *testing.T) {
	deploy(t)
	const blue = "k8s.cni.cncf.io/IPAMClaim/vm.blue/ips"
	pod := testenv.APod("a").In(env.Namespace(t)).With(reservation.NetworkSelections[0], `[{"cni-args":{"limpet.dev/owner":"`+blue+`"},"ipam-claim-reference": "vm\u002dblue"}]`).Pod
	for _, forged := range []string{
		"k8s.cni.cncf.io/IPAMClaim/vm.blue/db", "k8s.cni.cncf.io/Other/vm.blue/ips", "k8s.cni.cncf.io/IPAMClaim/vm.blue", "x/" + blue, "apps/Deployment/vm.blue/ips",
	} {
		refused(t, env.Client, denied, create(asking(pod, forged)))
	}
	allowed(t, env.Client, create(asking(pod, blue)))
	both := pod.DeepCopy()
	both.Annotations[reservation.NetworkSelections[0]] = `[{"cni-args":{"limpet.dev/owner":"` + blue + `","Limpet.dev/owner":"///other"},"ipam-claim-reference":"vm.blue","name":"n"}]`
	refused(t, env.Client, denied, create(both))
}

// asking is a pod with a value of the annotation.
func asking(pod *corev1.Pod, value string) client.Object {
	asks := pod.DeepCopy()
	asks.Annotations[reservation.OwnerAnnotation] = value
	return asks
}
