package serving

import (
	"context"
	"crypto"
	"crypto/tls"
	"io"
	"math"
	"net"
	"net/netip"

	"github.com/limpet-io/limpet/internal/cluster"
	"github.com/limpet-io/limpet/internal/endpoint"
)

// handshakes makes the signatures of one source address one after the other. A signature is
// what a handshake costs most, so that one address never takes all CPUs with them.
type handshakes struct{ cluster.Places[netip.Addr] }

// configure makes a server sign in turns. It is called after the certificate was configured.
func (h *handshakes) configure(cfg *tls.Config) {
	get := cfg.GetCertificate
	cfg.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := get(hello)
		if err != nil {
			return nil, err
		}
		return h.limit(pair, hello.Conn), nil
	}
}

// limit returns a pair that signs in the turn of a connection's source.
func (h *handshakes) limit(pair *tls.Certificate, c net.Conn) *tls.Certificate {
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || c == nil {
		return pair
	}
	limited := *pair
	limited.PrivateKey = signer{key, h, endpoint.SourceOf(c.RemoteAddr())}
	return &limited
}

// signer is a key of one source address.
type signer struct {
	crypto.Signer
	handshakes *handshakes
	source     netip.Addr
}

// Sign signs in the turn of the source.
func (s signer) Sign(random io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	leave, err := s.handshakes.Enter(context.Background(), s.source, 1, math.MaxInt)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.Signer.Sign(random, digest, opts)
}
