package serving

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// Clients are the clients that may ask for an admission: the holders of a certificate of one
// authority. The API server has such a certificate where its --admission-control-config-file
// names one. It has none for conversions, because no option of the API server gives it one.
type Clients struct {
	file  string
	names []string

	mu       sync.Mutex
	modified time.Time
	pool     *x509.CertPool
}

// errNoClients is returned for a file without a certificate.
var errNoClients = errors.New("no certificate in the file")

// NewClients reads the authority from a PEM file. Without names every certificate of the
// authority is accepted.
func NewClients(file string, names []string) (*Clients, error) {
	c := &Clients{file: file, names: names}
	return c, c.read()
}

// read reads the file if it has changed.
func (c *Clients) read() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(c.file)
	if err != nil {
		return fmt.Errorf("find authority of the clients: %w", err)
	}
	if c.pool != nil && info.ModTime().Equal(c.modified) {
		return nil
	}
	text, err := os.ReadFile(c.file)
	if err != nil {
		return fmt.Errorf("read authority of the clients: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("read authority of the clients from %s: %w", c.file, errNoClients)
	}
	c.pool, c.modified = pool, info.ModTime()
	return nil
}

// configure makes a server verify the certificates of its clients. A client without one
// passes the handshake: the API server has none for conversions.
func (c *Clients) configure(cfg *tls.Config) {
	cfg.ClientAuth = tls.VerifyClientCertIfGiven
	cfg.SessionTicketsDisabled = true // each connection shows its certificate
	base := cfg.Clone()
	cfg.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		_ = c.read() // a file that cannot be read now leaves the authority that was read last
		now := base.Clone()
		c.mu.Lock()
		defer c.mu.Unlock()
		now.ClientCAs = c.pool
		return now, nil
	}
}

// errClient tells a client why it is refused.
var errClient = errors.New("the client has no certificate that may ask for admissions")

// check returns an error for a connection whose client may not ask for admissions.
func (c *Clients) check(state *tls.ConnectionState) error {
	if state == nil || len(state.VerifiedChains) == 0 {
		return errClient
	}
	leaf := state.VerifiedChains[0][0]
	if len(c.names) > 0 && !slices.Contains(c.names, leaf.Subject.CommonName) &&
		!slices.ContainsFunc(leaf.DNSNames, func(n string) bool { return slices.Contains(c.names, n) }) {
		return fmt.Errorf("%w: %q is none of the names", errClient, leaf.Subject.CommonName)
	}
	return nil
}
