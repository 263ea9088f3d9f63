package upgrade

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// authorityKey is the key of the authority in the certificate's Secret.
const authorityKey = "ca.crt"

// Authority writes the certificate's authority into a CRD, so that the API server trusts
// its conversion webhook. The library that makes the certificate can do that as well, but
// would hold every CRD of the cluster in memory for it.
type Authority struct {
	Client client.Client
	Secret client.ObjectKey
	// CRD is the name of the one.
	CRD string
}

// SetupWithManager registers the reconciler.
func (a *Authority) SetupWithManager(mgr ctrl.Manager) error {
	one := reconcile.Request{NamespacedName: client.ObjectKey{Name: a.CRD}}
	toOne := func(_ context.Context, o client.Object) []reconcile.Request {
		if client.ObjectKeyFromObject(o) == a.Secret {
			return []reconcile.Request{one}
		}
		return nil
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("conversion-authority").
		For(&apiextensionsv1.CustomResourceDefinition{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(toOne)).
		Complete(a)
}

// Reconcile makes the CRD name the authority that the Secret holds.
func (a *Authority) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	var secret corev1.Secret
	if err := a.Client.Get(ctx, req.NamespacedName, &crd); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := a.Client.Get(ctx, a.Secret, &secret); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	authority := secret.Data[authorityKey]
	switch c := crd.Spec.Conversion; {
	case c == nil || c.Webhook == nil || c.Webhook.ClientConfig == nil:
		log.FromContext(ctx).Info("CRD names no conversion webhook: the controller's manifests were not applied whole")
		return ctrl.Result{}, nil
	case len(authority) == 0 || bytes.Equal(c.Webhook.ClientConfig.CABundle, authority):
		return ctrl.Result{}, nil
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"conversion": map[string]any{
		"webhook": map[string]any{"clientConfig": map[string]any{"caBundle": authority}},
	}}})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("encode patch: %w", err)
	}
	if err := a.Client.Patch(ctx, &crd, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("write authority into CRD %s: %w", a.CRD, err)
	}
	log.FromContext(ctx).Info("Authority written into CRD")
	return ctrl.Result{}, nil
}
