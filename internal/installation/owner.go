package installation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// kinds are the kinds of the webhook configurations. CRDs are not among them: with a CRD all
// of its objects would be deleted.
var kinds = []schema.GroupVersionKind{
	admissionv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"),
	admissionv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"),
}

// Owner makes the Namespace of the controller an owner of the webhook configurations.
// Otherwise they would stay behind when the Namespace is deleted, and pods that ask for a
// reservation would wait for a controller that does not come back.
type Owner struct {
	Client client.Client
	// Live reads the Namespace and the configurations past the cache.
	Live client.Reader
	// Namespace in which the controller runs.
	Namespace string
	// Configuration is the name of the configurations, one of each kind.
	Configuration string
}

// SetupWithManager registers the reconciler.
func (o *Owner) SetupWithManager(mgr ctrl.Manager) error {
	ours := builder.WithPredicates(predicate.NewPredicateFuncs(func(object client.Object) bool {
		return object.GetName() == o.Configuration
	}))
	return ctrl.NewControllerManagedBy(mgr).
		Named("webhook-owner").
		WatchesMetadata(&admissionv1.MutatingWebhookConfiguration{}, &handler.EnqueueRequestForObject{}, ours).
		WatchesMetadata(&admissionv1.ValidatingWebhookConfiguration{}, &handler.EnqueueRequestForObject{}, ours).
		Complete(o)
}

// Reconcile adds the owner to the configurations that lack it. A controller without the
// right to do so goes on without an owner.
func (o *Owner) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := o.Live.Get(ctx, client.ObjectKey{Name: o.Namespace}, namespace)
	if err != nil {
		return ctrl.Result{}, final(fmt.Errorf("get namespace %s: %w", o.Namespace, err))
	}
	var errs []error
	for _, kind := range kinds {
		errs = append(errs, o.own(ctx, kind, req.Name, namespace))
	}
	return ctrl.Result{}, final(errors.Join(errs...))
}

// final stops the retries after a refusal, which no retry changes.
func final(err error) error {
	if apierrors.IsForbidden(err) {
		return reconcile.TerminalError(err)
	}
	return err
}

// own adds the owner to one configuration.
func (o *Owner) own(ctx context.Context, kind schema.GroupVersionKind, name string, namespace *metav1.PartialObjectMetadata) error {
	configuration := &unstructured.Unstructured{} // so that fields of later versions of Kubernetes stay
	configuration.SetGroupVersionKind(kind)
	if err := o.Live.Get(ctx, client.ObjectKey{Name: name}, configuration); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("get %s %s: %w", kind.Kind, name, err)
	}
	owners, changed := withOwner(configuration.GetOwnerReferences(), namespace)
	if !changed {
		return nil
	}
	configuration.SetOwnerReferences(owners)
	if err := o.Client.Update(ctx, configuration); err != nil {
		return fmt.Errorf("make namespace %s own %s %s: %w", namespace.Name, kind.Kind, name, err)
	}
	log.FromContext(ctx).Info("Webhook configuration will be deleted with the namespace", "kind", kind.Kind)
	return nil
}

// withOwner returns the owners with the namespace among them. A reference to a former
// namespace of the name is replaced: the garbage collector would follow the former one.
func withOwner(owners []metav1.OwnerReference, namespace *metav1.PartialObjectMetadata) (with []metav1.OwnerReference, changed bool) {
	want := metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: namespace.Name, UID: namespace.UID}
	others := slices.DeleteFunc(slices.Clone(owners), func(r metav1.OwnerReference) bool {
		return r.APIVersion == want.APIVersion && r.Kind == want.Kind && r.Name == want.Name
	})
	if slices.Contains(owners, want) && len(others) == len(owners)-1 {
		return owners, false
	}
	return append(others, want), true
}
