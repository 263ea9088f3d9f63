package creation_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/creation"
	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// keeping makes a namespace with the one word, and a StatefulSet with a word of its own, "" for none.
func keeping(t *testing.T, namespace, workload string) testenv.StatefulSet {
	t.Helper()
	serve(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.Namespace(t)}}
	if namespace != "" {
		env.Annotate(t, ns, reservation.KeepAnnotation, namespace)
	}
	set := testenv.AStatefulSet("web", 2).In(ns.Name)
	if workload != "" {
		set = set.With(reservation.KeepAnnotation, workload)
	}
	put(t, set.StatefulSet)
	return set
}

// A pod that is created gets the word of the nearer of its workload and its namespace. It may not say it itself, nor have
// the addresses of its node.
func TestACreatedPodGetsTheNearestKeep(t *testing.T) {
	from := pin.AnnotationKeepFrom
	for name, tc := range map[string]struct {
		namespace, workload string
		pod                 map[string]string
		hostNetwork         bool
		value, from         string
	}{
		"of the namespace":            {namespace: "10m", value: "10m", from: "Namespace"},
		"of the workload":             {namespace: "10m", workload: "5m", value: "5m", from: "StatefulSet"},
		"the workload says not":       {namespace: "10m", workload: "0", from: pin.KeepFromNone},
		"the namespace says nonsense": {namespace: "soon", from: pin.KeepFromNone},
		"the namespace says not":      {namespace: "0"},
		"the pod says it":             {namespace: "10m", pod: map[string]string{reservation.KeepAnnotation: "1m"}, value: "1m"},
		"the pod says minutes":        {namespace: "10m", pod: map[string]string{retainAnnotation: "1"}},
		"a template of a running pod": {pod: map[string]string{reservation.KeepAnnotation: "1m", from: "Namespace"}, value: "1m"},
		"the addresses of its node":   {namespace: "10m", hostNetwork: true},
	} {
		t.Run(name, func(t *testing.T) {
			set := keeping(t, tc.namespace, tc.workload)
			pod := testenv.APod("web-0").In(set.Namespace).OwnedBy(set.StatefulSet).Pod
			pod.Annotations, pod.Spec.HostNetwork = tc.pod, tc.hostNetwork
			pod = admitted(t, pod)
			annotated(t, pod, map[string]string{reservation.KeepAnnotation: tc.value, from: tc.from})
		})
	}
}

// A pod whose namespace asks returns to its node, behind the gate that an own request gives.
func TestAPodOfAKeepingNamespaceIsPinned(t *testing.T) {
	set, node := keeping(t, "10m", ""), putNode(t)
	putStateOfOnly(t, set, map[string]appsv1beta1.PodState{"web-0": recordedOn(node, "10.0.1.5")})
	pod := admitted(t, testenv.APod("web-0").In(set.Namespace).OwnedBy(set.StatefulSet).Pod)
	annotated(t, pod, map[string]string{
		reservation.KeepAnnotation: "10m", appsv1beta1.AnnotationInjected: "web", pin.AnnotationNode: node.Name,
	})
	if len(pod.Spec.SchedulingGates) == 0 {
		t.Error("the pod has no gate")
	}
}

// A subset may say for how long addresses are kept. Its patch is applied first, so that nothing may follow it.
func TestASubsetMaySayForHowLong(t *testing.T) {
	kept := podpatch.Patch{Annotations: map[string]string{
		reservation.KeepAnnotation: "10m", pin.AnnotationKeepFrom: "Namespace", reservation.OwnerAnnotation: webDB, // which no subset gives
	}}
	no := map[string]string{reservation.OwnerAnnotation: webDB}
	none := map[string]string{reservation.OwnerAnnotation: webDB, reservation.KeepAnnotation: "0"} // as the policy limpet-kept asks
	for strategic, want := range map[string]map[string]string{
		"": kept.Annotations,
		`{"metadata":{"annotations":{"example.com/a":"b"}}}`:                                          kept.Annotations,
		`{"metadata":{"annotations":{"limpet.dev/keep-from":"x"}}}`:                                   kept.Annotations,
		`{"spec":{"containers":[{"name":"main","env":[{"name":"A","value":"limpet.dev/keep"}]}]}}`:    kept.Annotations,
		`{"metadata":{"annotations":{"limpet.dev/keep":"0"}}}`:                                        no,
		`{"metadata":{"annotations":{"` + retainAnnotation + `":"5"}}}`:                               no,
		`{"metadata":{"annotations":{"limpet.dev/keep":null,"` + retainAnnotation + `":"5"}}}`:        no,
		`{"metadata":{"annotations":{"limpet.dev/keep":null}}}`:                                       none,
		`{"metadata":{"annotations":{"` + retainAnnotation + `":null,"example.com/other":"limpet"}}}`: none,
	} {
		patch := podpatch.Patch{Annotations: maps.Clone(kept.Annotations), Strategic: []byte(strategic)}
		creation.WithoutKept(&patch, kept)
		if diff := cmp.Diff(want, patch.Annotations); diff != "" {
			t.Errorf("subset %s: annotations (-want +got):\n%s", strategic, diff)
		}
	}
}
