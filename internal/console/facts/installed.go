package facts

import (
	"context"
	"reflect"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Parts of the installation. They have fixed names, so that a user without the right to list
// them may still read them.
var (
	Controllers = objectOf("deployment "+Controller, Namespace, Controller, func(f *Facts, o *appsv1.Deployment) { f.Controllers = o })
	Agents      = objectOf("daemonset "+Agent, Namespace, Agent, func(f *Facts, o *appsv1.DaemonSet) { f.Agents = o })
	Leader      = objectOf("lease "+Controller, Namespace, Controller, func(f *Facts, o *coordinationv1.Lease) { f.Leader = o })
	Mutating    = objectOf("mutatingwebhookconfigurations.admissionregistration.k8s.io", "", Controller,
		func(f *Facts, o *admissionv1.MutatingWebhookConfiguration) { f.Mutating = o })
	Validating = objectOf("validatingwebhookconfigurations.admissionregistration.k8s.io", "", Controller,
		func(f *Facts, o *admissionv1.ValidatingWebhookConfiguration) { f.Validating = o })
)

// NodeNetworks is the kind of the NodeNetwork.
const NodeNetworks = "nodenetworks.limpet.dev"

// Settings are not kept: the part reports whether the kind is served where deploy/node-network is applied.
var Settings = Part{Kind: NodeNetworks, read: func(ctx context.Context, r client.Reader, _ string, _ *Facts) error {
	err := r.List(ctx, &limpetv1alpha1.NodeNetworkList{}, client.Limit(1))
	if !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return err
	}
	applied := r.Get(ctx, client.ObjectKey{Name: "limpet-agent-node-network"}, &rbacv1.ClusterRole{})
	if applied != nil {
		return client.IgnoreNotFound(applied)
	}
	return err
}}

// objectOf returns a part that reads one object. An object that does not exist stays nil.
func objectOf[T client.Object](kind, namespace, name string, set func(*Facts, T)) Part {
	return Part{Kind: kind, read: func(ctx context.Context, r client.Reader, _ string, f *Facts) error {
		object := made[T]()
		err := r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
		if err == nil {
			set(f, object)
		}
		return client.IgnoreNotFound(err)
	}}
}

// Namespaces reads those that ask for their pods. A user of one namespace may read that one.
var Namespaces = Part{Kind: "namespaces", read: func(ctx context.Context, r client.Reader, namespace string, f *Facts) error {
	add := func(f *Facts, l *corev1.NamespaceList) {
		f.Namespaces = append(f.Namespaces, slices.DeleteFunc(l.Items, func(ns corev1.Namespace) bool {
			_, asks := ns.Annotations[reservation.KeepAnnotation]
			return !asks
		})...)
	}
	if namespace == "" {
		return pages(false, made[*corev1.NamespaceList], add)(ctx, r, namespace, f)
	}
	one := corev1.Namespace{}
	err := r.Get(ctx, client.ObjectKey{Name: namespace}, &one)
	if err == nil {
		add(f, &corev1.NamespaceList{Items: []corev1.Namespace{one}})
	}
	return client.IgnoreNotFound(err)
}}

// made returns a new object of a type of pointers.
func made[T any]() T { return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T) }
