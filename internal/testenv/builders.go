package testenv

import (
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// Pod builds a pod; its methods change it and return it, so that they chain.
type Pod struct{ *corev1.Pod }

// APod begins a pod with one container in namespace default.
func APod(name string) Pod {
	return Pod{&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "example.com/main"}},
		},
	}}
}

// In puts the pod into a namespace.
func (p Pod) In(namespace string) Pod { p.Namespace = namespace; return p }

// On binds the pod to a node.
func (p Pod) On(node string) Pod { p.Spec.NodeName = node; return p }

// At gives the pod addresses.
func (p Pod) At(ips ...string) Pod {
	for _, ip := range ips {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	return p
}

// OwnedBy makes the pod one of a StatefulSet.
func (p Pod) OwnedBy(s *appsv1.StatefulSet) Pod {
	p.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(s, appsv1.SchemeGroupVersion.WithKind("StatefulSet")),
	}
	if s.UID == "" {
		p.OwnerReferences[0].UID = types.UID(s.Name)
	}
	return p
}

// Of makes the pod one of a workload of any kind.
func (p Pod) Of(o metav1.Object, kind schema.GroupVersionKind) Pod {
	p.Namespace = o.GetNamespace()
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(o, kind)}
	return p
}

// With sets an annotation.
func (p Pod) With(key, value string) Pod {
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value)
	return p
}

// Ready makes the pod run and be Ready.
func (p Pod) Ready() Pod {
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}

// ANode builds a node that is Ready and labelled with its hostname.
func ANode(name string) Node {
	return Node{&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}}
}

// Node builds a node.
type Node struct{ *corev1.Node }

// Labelled adds a label.
func (n Node) Labelled(key, value string) Node { n.Labels[key] = value; return n }

// Cordoned makes the node unschedulable.
func (n Node) Cordoned() Node { n.Spec.Unschedulable = true; return n }

// NotReady makes the node not ready.
func (n Node) NotReady() Node {
	n.Status.Conditions[0].Status = corev1.ConditionUnknown
	return n
}

// Saying sets whether the node is Ready, as its kubelet says since some time.
func (n Node) Saying(ready corev1.ConditionStatus, since time.Time) Node {
	n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = ready, metav1.NewTime(since)
	return n
}

// Tainted adds a taint.
func (n Node) Tainted(key string, effect corev1.TaintEffect) Node {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect})
	return n
}

// AStatefulSet begins a StatefulSet in namespace default.
func AStatefulSet(name string, replicas int32) StatefulSet {
	labels := map[string]string{"app": name}
	return StatefulSet{&appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: appsv1.StatefulSetSpec{
			Replicas:    new(replicas),
			ServiceName: name,
			Selector:    &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(labels)},
				Spec:       APod(name).Spec,
			},
		},
	}}
}

// StatefulSet builds a StatefulSet.
type StatefulSet struct{ *appsv1.StatefulSet }

// In puts the set into a namespace.
func (s StatefulSet) In(namespace string) StatefulSet { s.Namespace = namespace; return s }

// With sets an annotation of the set, not of its pods.
func (s StatefulSet) With(key, value string) StatefulSet {
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, key, value)
	return s
}

// StartingAt sets the first ordinal.
func (s StatefulSet) StartingAt(ordinal int32) StatefulSet {
	s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: ordinal}
	return s
}

// APersistentPodState begins a PersistentPodState of the StatefulSet of the same name.
func APersistentPodState(name string) PersistentPodState {
	return PersistentPodState{&appsv1beta1.PersistentPodState{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: appsv1beta1.PersistentPodStateSpec{
			TargetReference: appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: name},
		},
	}}
}

// PersistentPodState builds a PersistentPodState.
type PersistentPodState struct {
	*appsv1beta1.PersistentPodState
}

// In puts the object into a namespace.
func (s PersistentPodState) In(namespace string) PersistentPodState {
	s.Namespace = namespace
	return s
}

// Prefers adds a preferred topology of the given weight.
func (s PersistentPodState) Prefers(weight int32, keys ...string) PersistentPodState {
	s.Spec.PreferredPersistentTopology = append(s.Spec.PreferredPersistentTopology, appsv1beta1.PreferredTopologyTerm{
		Weight: weight, Preference: appsv1beta1.NodeTopologyTerm{Keys: keys},
	})
	return s
}

// Requires sets the required topology.
func (s PersistentPodState) Requires(keys ...string) PersistentPodState {
	s.Spec.RequiredPersistentTopology = &appsv1beta1.NodeTopologyTerm{Keys: keys}
	return s
}

// Recorded adds the record of a pod on a node with these labels.
func (s PersistentPodState) Recorded(pod, node string, labels map[string]string) PersistentPodState {
	if s.Status.PodStates == nil {
		s.Status.PodStates = map[string]appsv1beta1.PodState{}
	}
	s.Status.PodStates[pod] = appsv1beta1.PodState{NodeName: node, NodeTopologyLabels: labels}
	return s
}

// AReservation shows a pod's addresses as reserved for ten minutes since a moment, as the
// agent of the pod's node does.
func AReservation(pod *corev1.Pod, since time.Time) *limpetv1alpha1.IPReservation {
	until := metav1.NewTime(since.Add(10 * time.Minute))
	return &limpetv1alpha1.IPReservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name + ".eth0.net." + pod.Spec.NodeName},
		Status: limpetv1alpha1.IPReservationStatus{
			Node: pod.Spec.NodeName, Network: "net", Interface: "eth0", Pod: pod.Name, PodUID: string(pod.UID),
			IPs: pod.Status.PodIPs[0].IP, State: limpetv1alpha1.IPReserved, Until: &until, RetainMinutes: 10,
		},
	}
}

// Refused makes the scheduler say that no node takes the pod.
func (p Pod) Refused(message string) Pod {
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message,
	}}
	return p
}

// Gated puts the pod behind scheduling gates.
func (p Pod) Gated(names ...string) Pod {
	for _, name := range names {
		p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: name})
	}
	return p
}
