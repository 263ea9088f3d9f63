package serving

import (
	"crypto"
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"sync"

	"github.com/limpet-io/limpet/internal/endpoint"
)

// handshakes makes the signatures of one source address one after the other. A signature is
// what a handshake costs most, so that one address never takes all CPUs with them.
type handshakes struct {
	mu      sync.Mutex
	sources map[netip.Addr]*signing
}

// signing is the turn of one source address.
type signing struct {
	sync.Mutex
	waiting int // that sign, or wait for their turn
}

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
	leave := s.handshakes.enter(s.source)
	defer leave()
	return s.Signer.Sign(random, digest, opts)
}

// enter waits for the turn of a source.
func (h *handshakes) enter(source netip.Addr) (leave func()) {
	h.mu.Lock()
	turn := h.sources[source]
	if turn == nil {
		turn = &signing{}
		h.sources[source] = turn
	}
	turn.waiting++
	h.mu.Unlock()
	turn.Lock()
	return func() {
		turn.Unlock()
		h.mu.Lock()
		defer h.mu.Unlock()
		if turn.waiting--; turn.waiting == 0 {
			delete(h.sources, source)
		}
	}
}
