package main

import (
	"context"
	"fmt"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/limpet-io/limpet/internal/installation"
	"github.com/limpet-io/limpet/internal/platform/serving"
	"github.com/limpet-io/limpet/internal/upgrade"
)

// webhookConfiguration is the name of both webhook configurations in deploy/controller.
const webhookConfiguration = "limpet-controller"

// certify makes the manager serve with the webhook certificate. A certificate that is made
// here is kept up to date by a manager of its own, which starts together with the caches.
func certify(ctx context.Context, mgr ctrl.Manager, o options, c *serving.Certificate, crds []upgrade.CRD) error {
	if o.Certificate == certificateGiven {
		c.Read(o.CertDir, clock.RealClock{}, mgr.GetLogger())
		return nil
	}
	certifier, err := newCertifier(ctx, mgr.GetConfig(), mgr.GetScheme(), o, c, crds)
	if err != nil {
		return err
	}
	if err := mgr.Add(certifier); err != nil {
		return fmt.Errorf("add manager of the certificate: %w", err)
	}
	return nil
}

// newCertifier builds a second manager, for the certificate alone. Every replica starts it
// together with the caches of the main manager, which depend on it: the API server reads a
// PersistentPodState of a former version through our own conversion webhook, and trusts
// that webhook only when the certificate exists.
func newCertifier(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, o options, c *serving.Certificate, crds []upgrade.CRD) (ctrl.Manager, error) {
	secret := client.ObjectKey{Namespace: o.Namespace, Name: o.Secret}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"}, // the main manager serves all metrics
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Secret{}: {Namespaces: map[string]cache.Config{secret.Namespace: {}}},
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("make manager of the certificate: %w", err)
	}
	if err := c.Follow(ctx, mgr.GetCache(), secret); err != nil {
		return nil, err
	}
	if err := addRotator(mgr, o, secret); err != nil {
		return nil, err
	}
	service := apiextensionsv1.ServiceReference{Namespace: o.Namespace, Name: o.ConversionService, Path: new(serving.ConversionPath), Port: new(int32(443))}
	authority := &upgrade.Authority{Client: mgr.GetClient(), Secret: secret, Service: service, CRDs: crds}
	if err := authority.SetupWithManager(mgr); err != nil {
		return nil, fmt.Errorf("set up %T: %w", authority, err)
	}
	owner := &installation.Owner{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: o.Namespace, Configuration: webhookConfiguration}
	if err := owner.SetupWithManager(mgr); err != nil {
		return nil, fmt.Errorf("set up %T: %w", owner, err)
	}
	return mgr, nil
}

// addRotator makes and renews the certificate, and writes its authority into the webhook
// configurations. When two replicas do so at once, the API server refuses the second.
func addRotator(mgr ctrl.Manager, o options, secret client.ObjectKey) error {
	name := o.Service + "." + o.Namespace + ".svc"
	conversion := o.ConversionService + "." + o.Namespace + ".svc"
	err := rotator.AddRotator(mgr, &rotator.CertRotator{
		SecretKey:      secret,
		CertDir:        o.CertDir,
		CAName:         "limpet-controller-ca",
		CAOrganization: "limpet",
		DNSName:        name,
		ExtraDNSNames:  append(o.DNSNames, name+".cluster.local", conversion, conversion+".cluster.local"),
		IsReady:        make(chan struct{}),
		Webhooks: []rotator.WebhookInfo{
			{Name: webhookConfiguration, Type: rotator.Mutating},
			{Name: webhookConfiguration, Type: rotator.Validating},
		},
	})
	if err != nil {
		return fmt.Errorf("set up certificates: %w", err)
	}
	return nil
}
