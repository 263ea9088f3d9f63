package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// errNoCertificate is returned until the Secret holds a key pair.
var errNoCertificate = errors.New("webhook certificate does not exist yet")

// Certificate is the key pair with which this replica serves. It is read from the Secret
// itself: a mounted Secret changes up to 90 s later, and a replica that did not make the
// certificate could not serve in that time.
type Certificate struct {
	pair  atomic.Pointer[tls.Certificate]
	files *files // nil where the pair comes from a Secret
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

// load replaces the pair. A Secret without a usable pair changes nothing.
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
		return c.current()
	}
}

// current returns the pair to serve with.
func (c *Certificate) current() (*tls.Certificate, error) {
	var err error
	if c.files != nil {
		err = c.files.refresh(&c.pair)
	}
	switch pair := c.pair.Load(); {
	case pair != nil: // it serves until files with a usable pair replace it
		return pair, nil
	case err != nil:
		return nil, err
	}
	return nil, errNoCertificate
}

// Show registers the metric of the certificate's end.
func (c *Certificate) Show(r prometheus.Registerer) {
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "limpet_webhook_certificate_expiry_timestamp_seconds",
		Help: "Unix time at which the certificate of the webhooks ends; 0 while there is none.",
	}, func() float64 {
		pair, err := c.current()
		if err != nil {
			return 0
		}
		return float64(pair.Leaf.NotAfter.Unix())
	}))
}

// Ready is the readiness check: a replica gets requests only when it can answer them.
func (c *Certificate) Ready(*http.Request) error {
	_, err := c.current()
	return err
}
