package main

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// stage labels the nodes of this test, and keeps them to its own pods.
const stage = "example.com/stage"

// A real kube-scheduler brings a rebuilt pod home when the node passes the filters of the
// scheduler, and where other hard constraints of the pod say when the node does not.
func TestARealSchedulerPlacesRebuiltPods(t *testing.T) {
	install(t)
	controller := startReplica(t)
	pointWebhooksAt(t, controller)
	controller.waitReady(t)
	for name, pool := range map[string]string{"s1": "old", "s2": "new"} {
		env.Create(t, testenv.ANode(name).Labelled(stage, "yes").Labelled(stage+"-pool", pool).Tainted(stage, corev1.TaintEffectNoSchedule).WithRoom(20, 8).Node)
	}
	env.StartScheduler(t)
	preferred, required := testenv.PersistentPodState.Prefers, testenv.PersistentPodState.Requires
	at100 := func(s testenv.PersistentPodState, keys ...string) testenv.PersistentPodState {
		return preferred(s, 100, keys...)
	}
	cases := map[string]struct {
		prefer func(testenv.PersistentPodState, ...string) testenv.PersistentPodState
		shape  func(t *testing.T, pod testenv.Pod)
		want   string // node; "" when it waits
		waits  string // reason
	}{
		"home, though the other node is empty":                 {at100, func(*testing.T, testenv.Pod) {}, "s1", ""},
		"home, though a ScheduleAnyway constraint pulls":       {at100, spread(corev1.ScheduleAnyway), "s1", ""},
		"elsewhere by a DoNotSchedule constraint":              {at100, spread(corev1.DoNotSchedule), "s2", ""},
		"elsewhere by the node of its volume":                  {at100, volumeOn("s2"), "s2", ""},
		"elsewhere by the user's own affinity":                 {at100, either("s2", "s3"), "s2", ""},
		"elsewhere when the node is full":                      {at100, func(_ *testing.T, pod testenv.Pod) { pod.Asking(7) }, "s2", ""},
		"home by the one alternative of the user that is":      {required, either("s1", "s2"), "s1", ""},
		"elsewhere by the user's affinity, though required":    {required, either("s2", "s3"), "s2", ""},
		"elsewhere by a selector of the user, though required": {required, inPool("new"), "s2", ""},
		"nowhere while the required node is not the volume's":  {required, volumeOn("s2"), "", pin.CauseConstraint},
		"nowhere while a constraint forbids the required node": {required, apart, "", pin.CauseConstraint},
		"nowhere while the required node is full":              {required, func(_ *testing.T, pod testenv.Pod) { pod.Asking(7) }, "", pin.CauseNodeRefused},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ns := env.Namespace(t)
			set := testenv.AStatefulSet("web", 2).In(ns)
			env.Create(t, set.StatefulSet, tc.prefer(testenv.APersistentPodState("web").In(ns), hostname).PersistentPodState)
			former := onStage(set, "web-0").On("s1").Ready().Pod
			env.Create(t, onStage(set, "web-1").On("s1").Asking(2).Pod, former)
			env.RecordedOn(t, set, map[string]string{"web-0": "s1"})
			env.Remove(t, former)
			pod := onStage(set, "web-0")
			tc.shape(t, pod)
			if err := env.Client.Create(t.Context(), pod.Pod); err != nil {
				t.Fatal(err)
			}
			testenv.Eventually(t, func() error { return placed(t, pod.Pod, tc.want) })
			if tc.waits != "" {
				env.Condition(t, set, appsv1beta1.ConditionWaiting, metav1.ConditionTrue, tc.waits, "")
			}
			env.Remove(t, pod.Pod) // its room is for the next
		})
	}
}

func onStage(set testenv.StatefulSet, name string) testenv.Pod {
	pod := testenv.APod(name).In(set.Namespace).OwnedBy(set.StatefulSet).With(reservation.RetainAnnotation, "10")
	pod.Labels = map[string]string{"app": "web"}
	pod.Spec.NodeSelector = map[string]string{stage: "yes"}
	pod.Spec.Tolerations = []corev1.Toleration{{Key: stage, Operator: corev1.TolerationOpExists}}
	return pod
}

// placed checks where the scheduler put a pod or, without a node, that it refused to.
func placed(t *testing.T, pod *corev1.Pod, node string) error {
	t.Helper()
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		return err
	}
	if pod.Spec.NodeName != node || node == "" && !pin.Waits(pod) {
		return fmt.Errorf("on node %q: %+v", pod.Spec.NodeName, pod.Status.Conditions)
	}
	return nil
}

func spread(when corev1.UnsatisfiableConstraintAction) func(*testing.T, testenv.Pod) {
	return func(_ *testing.T, pod testenv.Pod) {
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: hostname, WhenUnsatisfiable: when,
			LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
		}}
	}
}

// apart is a constraint that counts nodes to which the pod may not go, too.
func apart(t *testing.T, pod testenv.Pod) {
	t.Helper()
	spread(corev1.DoNotSchedule)(t, pod)
	pod.Spec.TopologySpreadConstraints[0].NodeAffinityPolicy = new(corev1.NodeInclusionPolicyIgnore)
}

// either makes two nodes the alternatives of the pod's own affinity.
func either(nodes ...string) func(*testing.T, testenv.Pod) {
	return func(_ *testing.T, pod testenv.Pod) {
		var terms []corev1.NodeSelectorTerm
		for _, node := range nodes {
			terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: hostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
			}})
		}
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
}

// inPool lets the pod's own selector ask for a pool of nodes.
func inPool(name string) func(*testing.T, testenv.Pod) {
	return func(_ *testing.T, pod testenv.Pod) { pod.Spec.NodeSelector[stage+"-pool"] = name }
}

// volumeOn gives the pod a volume that is on one node only.
func volumeOn(node string) func(*testing.T, testenv.Pod) {
	return func(t *testing.T, pod testenv.Pod) {
		t.Helper()
		size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
		modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: pod.Namespace, Name: "data", Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"},
			},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size},
				StorageClassName: new(""), VolumeName: pod.Namespace,
			},
		}
		env.Create(t, claim)
		env.Create(t, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Namespace},
			Spec: corev1.PersistentVolumeSpec{
				AccessModes: modes, Capacity: size,
				ClaimRef:               &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
				PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/data"}},
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: hostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
				}}}},
			},
		})
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}}}
	}
}
