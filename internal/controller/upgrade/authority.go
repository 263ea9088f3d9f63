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
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// authorityKey is the key of the certificate authority in the certificate's Secret.
const authorityKey = "ca.crt"

// Authority writes the certificate authority of the webhooks into CRDs, so that the API
// server trusts their conversion webhook. The library that makes the certificate could do
// the same, but would hold every CRD of the cluster in memory.
type Authority struct {
	// Client reads the Secret from the cache, and writes.
	Client client.Client
	Secret client.ObjectKey
	CRDs   []CRD

	definitions map[string]definition // by the name of the CRD
}

// SetupWithManager registers the reconciler.
func (a *Authority) SetupWithManager(mgr ctrl.Manager) error {
	a.definitions = map[string]definition{}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("conversion-authority").
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(a.ofSecret))
	for _, crd := range a.CRDs {
		d, err := newDefinition(mgr, crd.Name)
		if err != nil {
			return err
		}
		if err := mgr.Add(d); err != nil {
			return fmt.Errorf("add cache of CRD %s: %w", crd.Name, err)
		}
		a.definitions[crd.Name] = d
		b = b.WatchesRawSource(source.Kind[client.Object](d, &apiextensionsv1.CustomResourceDefinition{}, &handler.EnqueueRequestForObject{}))
	}
	return b.Complete(a)
}

// ofSecret requests every CRD when the authority may be another one.
func (a *Authority) ofSecret(_ context.Context, o client.Object) []reconcile.Request {
	if client.ObjectKeyFromObject(o) != a.Secret {
		return nil
	}
	var requests []reconcile.Request
	for _, crd := range a.CRDs {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Name: crd.Name}})
	}
	return requests
}

// Reconcile makes one CRD name the authority that the Secret holds.
func (a *Authority) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	var secret corev1.Secret
	if err := a.definitions[req.Name].Get(ctx, req.NamespacedName, &crd); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := a.Client.Get(ctx, a.Secret, &secret); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	authority := secret.Data[authorityKey]
	switch c := crd.Spec.Conversion; {
	case c == nil || c.Webhook == nil || c.Webhook.ClientConfig == nil:
		log.FromContext(ctx).Info("CRD has no conversion webhook: apply all of the controller's manifests")
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
		return ctrl.Result{}, fmt.Errorf("write authority into CRD %s: %w", req.Name, err)
	}
	log.FromContext(ctx).Info("Authority written into CRD")
	return ctrl.Result{}, nil
}
