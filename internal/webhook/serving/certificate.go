package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// errNoCertificate is returned until the Secret holds a key pair.
var errNoCertificate = errors.New("webhook certificate is not there yet")

// Certificate is the key pair that this replica serves with. It follows the Secret
// itself: a mounted one reaches the pod up to a minute and a half late, in which the
// replica that did not make the certificate could not serve.
type Certificate struct {
	pair atomic.Pointer[tls.Certificate]
}

// Follow loads the pair from the Secret now and whenever it changes.
func (c *Certificate) Follow(ctx context.Context, informers cache.Informers, secret client.ObjectKey) error {
	informer, err := informers.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch secret %s: %w", secret, err)
	}
	logger := log.FromContext(ctx).WithValues("secret", secret)
	load := func(o any) {
		if s, ok := o.(*corev1.Secret); ok && client.ObjectKeyFromObject(s) == secret {
			c.load(logger, s)
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    load,
		UpdateFunc: func(_, o any) { load(o) },
	})
	if err != nil {
		return fmt.Errorf("watch secret %s: %w", secret, err)
	}
	return nil
}

// load keeps the pair that it has when the Secret holds none that can be used.
func (c *Certificate) load(logger logr.Logger, s *corev1.Secret) {
	if len(s.Data[corev1.TLSCertKey]) == 0 {
		return
	}
	pair, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		logger.Error(err, "Webhook certificate is not used")
		return
	}
	c.pair.Store(&pair)
	logger.Info("Webhook certificate loaded", "notAfter", pair.Leaf.NotAfter)
}

// Configure makes a server use the pair.
func (c *Certificate) Configure(cfg *tls.Config) {
	cfg.MinVersion = tls.VersionTLS12
	cfg.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if pair := c.pair.Load(); pair != nil {
			return pair, nil
		}
		return nil, errNoCertificate
	}
}

// Ready is the readiness check: a replica is sent requests when it can answer them.
func (c *Certificate) Ready(*http.Request) error {
	if c.pair.Load() == nil {
		return errNoCertificate
	}
	return nil
}
