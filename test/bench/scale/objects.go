package main

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
	"github.com/limpet-io/limpet/test/bench/bed"
)

const (
	perWorkload  = 50 // pods of a workload
	perNamespace = 20 // workloads of a namespace
)

// fleet is the objects of a cluster, each made from its number.
type fleet struct {
	nodes, pods int
	// recorded is how many of a hundred pods belong to a StatefulSet and ask to keep their address.
	recorded int
	made     time.Time
}

func (f fleet) workloads() int  { return f.pods / perWorkload }
func (f fleet) namespaces() int { return (f.workloads() + perNamespace - 1) / perNamespace }
func (f fleet) records() int    { return f.sets() * perWorkload }

// sets is how many workloads are StatefulSets.
func (f fleet) sets() int {
	n := 0
	for i := range f.workloads() {
		if f.isSet(i) {
			n++
		}
	}
	return n
}

func (f fleet) isSet(workload int) bool { return workload*37%100 < f.recorded }

// uid is that of the i-th object of a kind.
func uid(kind, i int) types.UID {
	return types.UID(fmt.Sprintf("%08x-%04x-4000-8000-%012x", uint32(i)*2654435761, kind, i)) //nolint:gosec // a number of an object
}

// Kinds of uid.
const (
	ofNode = iota
	ofPod
	ofWorkload
	ofReplicaSet
	ofPool
	ofReservation
)

func (f fleet) namespace(i int) client.Object {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("tenant-%d", i)}}
}

func (f fleet) meta(kind, i int, namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid(kind, i), CreationTimestamp: metav1.NewTime(f.made.Truncate(time.Second)), Generation: 1}
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

func (f fleet) node(i int) client.Object {
	node := testenv.ANode(nodeName(i)).Labelled(corev1.LabelTopologyZone, fmt.Sprintf("zone-%d", i%3)).Node
	labels := node.Labels
	node.ObjectMeta = f.meta(ofNode, i, "", node.Name)
	node.Labels = labels
	node.Spec.PodCIDRs = []string{nodeRange(i)}
	node.Spec.PodCIDR = node.Spec.PodCIDRs[0]
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("128Gi"), corev1.ResourcePods: resource.MustParse("250"),
	}
	node.Status.Capacity = node.Status.Allocatable
	for i := range 30 {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/team/image-%d:v1.2.3", i)}, SizeBytes: 1 << 27})
	}
	return node
}

// nodeRange is the range of a node's addresses.
func nodeRange(i int) string { return fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255) }

// workload is a StatefulSet or a Deployment; a Deployment has a ReplicaSet.
func (f fleet) workload(i int) client.Object {
	namespace, name := fmt.Sprintf("tenant-%d", i/perNamespace), fmt.Sprintf("app-%d", i)
	set := testenv.AStatefulSet(name, perWorkload).In(namespace).StatefulSet
	bed.Furnish(&set.Spec.Template.Spec)
	if !f.isSet(i) {
		d := &appsv1.Deployment{ObjectMeta: f.meta(ofWorkload, i, namespace, name)}
		d.Spec = appsv1.DeploymentSpec{Replicas: set.Spec.Replicas, Selector: set.Spec.Selector, Template: set.Spec.Template}
		return d
	}
	set.ObjectMeta = f.meta(ofWorkload, i, namespace, name)
	set.Annotations = map[string]string{appsv1beta1.AnnotationAutoGenerate: "true", appsv1beta1.AnnotationPreferredTopology: corev1.LabelHostname}
	set.Spec.Template.Annotations = map[string]string{reservation.RetainAnnotation: "10"}
	set.Status.Replicas = perWorkload
	return set
}

func (f fleet) replicaSet(i int) client.Object {
	d := f.workload(i)
	set := &appsv1.ReplicaSet{ObjectMeta: f.meta(ofReplicaSet, i, d.GetNamespace(), d.GetName()+"-7d9f8c6b5d")}
	if d, ok := d.(*appsv1.Deployment); ok {
		set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
		set.Spec = appsv1.ReplicaSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template}
	}
	return set
}

// address is that of the i-th pod of all. Its node has the range.
func (f fleet) address(i int) string {
	node := i % f.nodes
	return fmt.Sprintf("10.%d.%d.%d", node>>8, node&255, 2+i/f.nodes)
}

// pod is a running pod of a usual size.
func (f fleet) pod(i int) client.Object {
	w := i / perWorkload
	owner := f.workload(w)
	name, kind, labels := fmt.Sprintf("%s-%d", owner.GetName(), i%perWorkload), "StatefulSet", map[string]string{"app": owner.GetName()}
	if !f.isSet(w) {
		owner, kind = f.replicaSet(w), "ReplicaSet"
		name = fmt.Sprintf("%s-%05x", owner.GetName(), i)
		labels[appsv1.DefaultDeploymentUniqueLabelKey] = "7d9f8c6b5d"
	}
	pod := testenv.APod(name).Of(owner, appsv1.SchemeGroupVersion.WithKind(kind)).On(nodeName(i % f.nodes)).At(f.address(i)).Ready().Pod
	owners := pod.OwnerReferences
	pod.ObjectMeta = f.meta(ofPod, i, pod.Namespace, name)
	pod.OwnerReferences, pod.Labels = owners, labels
	if kind == "StatefulSet" {
		pod.Annotations = map[string]string{reservation.RetainAnnotation: "10"}
		labels[appsv1.StatefulSetPodNameLabel], labels[appsv1.PodIndexLabel] = name, fmt.Sprint(i%perWorkload)
		labels[appsv1.ControllerRevisionHashLabelKey] = owner.GetName() + "-1"
	}
	bed.Furnish(&pod.Spec)
	f.run(pod)
	return pod
}

// run gives a pod what the API server, the scheduler and the kubelet add.
func (f fleet) run(pod *corev1.Pod) {
	pod.Spec.Tolerations = []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
	}
	pod.Spec.RestartPolicy, pod.Spec.DNSPolicy, pod.Spec.SchedulerName = corev1.RestartPolicyAlways, corev1.DNSClusterFirst, corev1.DefaultSchedulerName
	pod.Spec.ServiceAccountName, pod.Spec.TerminationGracePeriodSeconds, pod.Spec.EnableServiceLinks = "default", new(int64(30)), new(true)
	pod.Spec.SecurityContext, pod.Status.QOSClass = &corev1.PodSecurityContext{}, corev1.PodQOSBurstable
	pod.Status.PodIP, pod.Status.StartTime = pod.Status.PodIPs[0].IP, &pod.CreationTimestamp
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue})
	}
	for i := range pod.Status.Conditions {
		pod.Status.Conditions[i].LastTransitionTime = pod.CreationTimestamp
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", Image: "example.com/main", ImageID: "example.com/main@sha256:6c3c624b58dbbcd3c0dd82b4c53f04194d1247c6eebdaab7c610cf7d66709b3b",
		ContainerID: "containerd://9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", Ready: true, Started: new(true),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: pod.CreationTimestamp}},
	}}
	pod.ManagedFields = managed
}

// managed is what the API server keeps of who wrote a pod.
var managed = []metav1.ManagedFieldsEntry{
	{Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(
		`{"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"u\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:env":{},"f:image":{},"f:livenessProbe":{},"f:name":{},"f:readinessProbe":{},"f:resources":{},"f:volumeMounts":{}}},"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{},"f:volumes":{}}}`)},
	{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", Subresource: "status", FieldsV1: metav1.NewFieldsV1(
		`{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:podIPs":{},"f:startTime":{}}}`)},
}

// pool is what the agent of a node shows of its addresses.
func (f fleet) pool(i int) client.Object {
	p := &limpetv1alpha1.NodeIPPool{ObjectMeta: f.meta(ofPool, i, "", nodeName(i)+".net")}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: nodeName(i), UID: uid(ofNode, i)}}
	p.Status = limpetv1alpha1.NodeIPPoolStatus{Node: nodeName(i), Network: "net", Ranges: []string{fmt.Sprintf("10.%d.%d.1-10.%d.%d.254", i>>8, i&255, i>>8, i&255)}, Total: 254, Free: 224}
	return p
}

// reservation is what the agent shows of the addresses of the i-th pod.
func (f fleet) reservation(i int) client.Object {
	pod, node := f.pod(i), nodeName(i%f.nodes)
	o := &limpetv1alpha1.IPReservation{ObjectMeta: f.meta(ofReservation, i, pod.GetNamespace(), fmt.Sprintf("%s.eth0.net.%s", pod.GetName(), node))}
	o.Labels = map[string]string{limpetv1alpha1.LabelNode: limpetv1alpha1.NodeLabel(node)}
	o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: uid(ofNode, i%f.nodes)}}
	o.Status = limpetv1alpha1.IPReservationStatus{
		Node: node, Network: "net", Interface: "eth0", Pod: pod.GetName(), PodUID: string(uid(ofPod, i)), IPs: f.address(i),
		State: limpetv1alpha1.IPAttached, RetainMinutes: 10,
	}
	return o
}
