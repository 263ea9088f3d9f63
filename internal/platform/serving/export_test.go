package serving

import "crypto/tls"

// Use makes a server use a key pair without a Secret.
func (c *Certificate) Use(pair *tls.Certificate) { c.pair.Store(pair) }

// Asking is how many requests wait for their turn or are handled.
func (s *Server) Asking() (n int) {
	for _, l := range s.gate.lanes.of {
		n += l.parties.Requests()
	}
	return n
}

// NamespaceOf is the namespace that the head of a body tells.
var NamespaceOf = namespaceOf
