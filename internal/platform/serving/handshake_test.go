package serving_test

import (
	"crypto"
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/platform/serving"
)

// slowKey signs when a test lets it.
type slowKey struct {
	crypto.Signer
	begun, free chan struct{}
}

func (k slowKey) Sign(random io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	k.begun <- struct{}{}
	<-k.free
	return k.Signer.Sign(random, digest, opts)
}

// One address has one signature made at a time, and other addresses do not wait for it.
func TestHandshakesOfOneAddressAreMadeInTurn(t *testing.T) {
	const each = 10
	var certificate *serving.Certificate
	w := serve(t, echo, func(o *serving.Options) { certificate = o.Certificate })
	key := slowKey{begun: make(chan struct{}, 2*each), free: make(chan struct{})}
	pair := w.authority.pair("server", x509.ExtKeyUsageServerAuth)
	key.Signer = pair.PrivateKey.(crypto.Signer)
	pair.PrivateKey = key
	certificate.Use(&pair)
	var all sync.WaitGroup
	for _, from := range []string{"127.0.0.2", "127.0.0.3"} {
		for range each {
			all.Go(func() {
				if status, _, err := w.post(t, w.client(from, nil), path, strings.NewReader("x")); err != nil || status != http.StatusOK {
					t.Errorf("a request of %s: %d, %v", from, status, err)
				}
			})
		}
		<-key.begun // by each address, though the other one's has not ended
	}
	select {
	case <-key.begun:
		t.Error("an address has two signatures made at a time")
	case <-time.After(50 * time.Millisecond):
	}
	close(key.free)
	all.Wait()
}
