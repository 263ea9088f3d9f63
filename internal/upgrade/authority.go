package upgrade

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// authorityKey is the key of the certificate authority in the certificate's Secret.
const authorityKey = "ca.crt"

// ownVersion is the first version of each of Limpet's CRDs. It is not served. OpenKruise's manager
// writes its own conversion into CRDs whose first version it knows.
const ownVersion = "limpet"

// errForeign tells that another program has replaced a CRD.
var errForeign = errors.New("the CRD is not Limpet's and converts elsewhere; remedy: kubectl apply --server-side --force-conflicts -k deploy/crds")

// Authority writes the conversion webhook and its certificate authority into CRDs. The library
// that makes the certificate could write the authority, but would hold every CRD of the cluster
// in memory.
type Authority struct {
	// Client reads the Secret from the cache, and writes.
	Client client.Client
	Secret client.ObjectKey
	// Service is where the API server sends objects for their conversion.
	Service apiextensionsv1.ServiceReference
	CRDs    []CRD

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
	before := crd.DeepCopy()
	if err := convert(&crd, a.Service, secret.Data[authorityKey]); err != nil {
		return ctrl.Result{}, fmt.Errorf("convert by CRD %s: %w", req.Name, err)
	}
	if equality.Semantic.DeepEqual(before.Spec.Conversion, crd.Spec.Conversion) {
		return ctrl.Result{}, nil
	}
	if err := a.Client.Patch(ctx, &crd, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("write conversion into CRD %s: %w", req.Name, err)
	}
	log.FromContext(ctx).Info("Conversion written into CRD")
	return ctrl.Result{}, nil
}

// convert makes a CRD convert through a service; without an authority it changes nothing. An address
// that is no service was chosen by a user, and stays. So does a CRD that another program has
// replaced: that program would replace it again.
func convert(crd *apiextensionsv1.CustomResourceDefinition, service apiextensionsv1.ServiceReference, authority []byte) error {
	c := crd.Spec.Conversion
	here := c != nil && c.Webhook != nil && c.Webhook.ClientConfig != nil &&
		(c.Webhook.ClientConfig.Service == nil || equality.Semantic.DeepEqual(*c.Webhook.ClientConfig.Service, service))
	switch {
	case len(authority) == 0:
	case here:
		c.Webhook.ClientConfig.CABundle = authority
	case crd.Spec.Versions[0].Name != ownVersion && (c == nil || c.Webhook == nil): // it converts nothing
	case crd.Spec.Versions[0].Name != ownVersion:
		return errForeign
	default:
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{Service: &service, CABundle: authority},
			ConversionReviewVersions: []string{"v1"},
		}}
	}
	return nil
}
