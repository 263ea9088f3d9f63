package facts

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Workload is the annotations of a workload and of its pod template.
type Workload struct {
	Kind                  schema.GroupVersionKind
	Namespace, Name       string
	Annotations, Template map[string]string
}

// Workloads are the kinds about whose annotations the webhook warns.
var Workloads = []Part{
	workloads(appsv1.SchemeGroupVersion.WithKind("StatefulSet")), workloads(appsv1.SchemeGroupVersion.WithKind("Deployment")),
	workloads(appsv1.SchemeGroupVersion.WithKind("DaemonSet")), workloads(appsv1.SchemeGroupVersion.WithKind("ReplicaSet")),
	workloads(batchv1.SchemeGroupVersion.WithKind("Job")), workloads(batchv1.SchemeGroupVersion.WithKind("CronJob")),
	workloads(appsv1beta1.GroupVersion.WithKind("StatefulSet")),
	workloads(kruise.WithKind("CloneSet")), workloads(kruise.WithKind("DaemonSet")),
}

// kruise is the version of OpenKruise's kinds other than the StatefulSet. A cluster need not serve them.
var kruise = schema.GroupVersion{Group: appsv1beta1.GroupVersion.Group, Version: "v1alpha1"}

// workloads returns a part that lists a kind of workload without those that another workload controls.
func workloads(kind schema.GroupVersionKind) Part {
	made := func() *unstructured.UnstructuredList {
		l := &unstructured.UnstructuredList{}
		l.SetGroupVersionKind(kind)
		return l
	}
	list := pages(true, made, func(f *Facts, l *unstructured.UnstructuredList) {
		for i := range l.Items {
			if o := &l.Items[i]; metav1.GetControllerOf(o) == nil {
				f.Workloads = append(f.Workloads, Workload{kind, o.GetNamespace(), o.GetName(), o.GetAnnotations(), template(o)})
			}
		}
	})
	return Part{Kind: strings.ToLower(kind.Kind) + "s." + kind.Group, namespaced: true, read: func(ctx context.Context, r client.Reader, namespace string, f *Facts) error {
		err := list(ctx, r, namespace, f)
		if kind.Group == kruise.Group && meta.IsNoMatchError(err) {
			return nil
		}
		return err
	}}
}

// template returns the annotations of a pod template. A CronJob has it in the template of its Jobs.
func template(o *unstructured.Unstructured) map[string]string {
	path := []string{"spec", "template", "metadata", "annotations"}
	if o.GetKind() == "CronJob" {
		path = append([]string{"spec", "jobTemplate"}, path...)
	}
	found, _, _ := unstructured.NestedStringMap(o.Object, path...)
	return found
}
