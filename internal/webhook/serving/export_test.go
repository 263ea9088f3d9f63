package serving

import "crypto/tls"

// Use makes a server use a key pair without a Secret.
func (c *Certificate) Use(pair *tls.Certificate) { c.pair.Store(pair) }

// Asking is how many requests wait for their turn or are handled.
func (s *Server) Asking() int {
	of := s.gate.lanes.parties
	of.mu.Lock()
	defer of.mu.Unlock()
	n := 0
	for _, c := range of.clients {
		n += c.requests
	}
	return n
}

// NamespaceOf is the namespace that the head of a body tells.
var NamespaceOf = namespaceOf
