package serving

import (
	"crypto"
	"crypto/tls"
	"io"
	"net/netip"

	"github.com/limpet-io/limpet/internal/platform/endpoint"
	"github.com/limpet-io/limpet/internal/platform/fair"
)

// signInTurns makes a server make the signatures of one source address one after the other. A signature is what a
// handshake costs most, so that one address never takes all CPUs with them. It is called after the certificate was
// configured.
func signInTurns(cfg *tls.Config) {
	get, turns := cfg.GetCertificate, fair.NewSemaphore[netip.Addr](fair.Bounds{Each: 1})
	cfg.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := get(hello)
		if err != nil {
			return nil, err
		}
		key, ok := pair.PrivateKey.(crypto.Signer)
		if !ok || hello.Conn == nil {
			return pair, nil
		}
		limited := *pair
		limited.PrivateKey = signer{key, func() (func(), error) {
			return turns.Enter(hello.Context(), endpoint.SourceOf(hello.Conn.RemoteAddr()), 1)
		}}
		return &limited, nil
	}
}

// signer is a key that signs in the turn of one source address.
type signer struct {
	crypto.Signer
	enter func() (leave func(), err error)
}

// Sign signs in the turn of the source.
func (s signer) Sign(random io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.Signer.Sign(random, digest, opts)
}
