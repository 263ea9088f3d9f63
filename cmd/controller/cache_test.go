package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// fat gives an object as much metadata as a user may write.
func fat[T client.Object](o T) T {
	labels, notes := map[string]string{}, map[string]string{"limpet.dev/long": strings.Repeat("x", 200<<10), "long": strings.Repeat("x", 200<<10)}
	for i := range 5000 {
		name := fmt.Sprintf("example.com/%060d", i)
		labels[name], notes["kruise.io/"+name] = strings.Repeat("x", 60), "x"
		o.SetOwnerReferences(append(o.GetOwnerReferences(), metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: "u"}))
		o.SetFinalizers(append(o.GetFinalizers(), name))
	}
	o.SetOwnerReferences(append(o.GetOwnerReferences(), metav1.OwnerReference{
		APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "u", Controller: new(true),
	}))
	o.SetName("web-0")
	o.SetLabels(labels)
	o.SetAnnotations(notes)
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: strings.Repeat("x", 200<<10)}})
	return o
}

// fatTemplate is a pod of which each list is long, but those that decide about a pod that waits.
func fatTemplate() corev1.PodTemplateSpec {
	pod := fat(&corev1.Pod{})
	requests := corev1.ResourceList{}
	for i := range 5000 {
		name := fmt.Sprintf("example.com/%060d", i)
		requests[corev1.ResourceName(name)] = resource.MustParse("1")
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: name, Operator: corev1.TolerationOpExists})
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: name})
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{TopologyKey: name})
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name})
		pod.Spec.HostAliases = append(pod.Spec.HostAliases, corev1.HostAlias{IP: "10.0.0.1", Hostnames: []string{name}})
	}
	pod.Spec.Containers = []corev1.Container{{
		Name: "main", Image: strings.Repeat("x", 1000), Args: []string{strings.Repeat("x", 200<<10)},
		Resources: corev1.ResourceRequirements{Requests: requests},
	}}
	return corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
}

// A few hundred objects of a tenant must not take the memory of the controller, whatever the
// tenant writes into them. The parts that features need are joined, so that one feature could
// keep what another one leaves out.
func TestTheCacheKeepsLittleOfEachObject(t *testing.T) {
	var needs []cluster.Needs
	for _, f := range features(Default()) {
		needs = append(needs, f.needs...)
	}
	options := cluster.CacheOptions(needs...)
	template := fatTemplate()
	selector := &metav1.LabelSelector{MatchLabels: template.Labels}
	for name, tc := range map[string]struct {
		o    client.Object
		most int
	}{
		"Pod":                  {&corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}, 64 << 10},
		"StatefulSet":          {fat(&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: template, Selector: selector}}), 48 << 10},
		"Deployment":           {fat(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: template, Selector: selector}}), 32 << 10},
		"ReplicaSet":           {fat(&appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Template: template, Selector: selector}}), 32 << 10},
		"Job":                  {fat(&batchv1.Job{Spec: batchv1.JobSpec{Template: template, Selector: selector}}), 32 << 10},
		"PodDisruptionBudget":  {fat(&policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector}}), 32 << 10},
		"PodUnavailableBudget": {fat(&policyv1beta1.PodUnavailableBudget{Spec: policyv1beta1.PodUnavailableBudgetSpec{Selector: selector}}), 48 << 10},
		"other kinds":          {fat(&metav1.PartialObjectMetadata{}), 24 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			keep := options.DefaultTransform
			for kind, by := range options.ByObject {
				if fmt.Sprintf("%T", kind) == fmt.Sprintf("%T", tc.o) && by.Transform != nil {
					keep = by.Transform
				}
			}
			kept, err := keep(tc.o)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(kept)
			if err != nil || len(text) > tc.most {
				t.Errorf("the cache keeps %d bytes, want at most %d; error %v", len(text), tc.most, err)
			}
		})
	}
}
