package serving

import "crypto/tls"

// Use makes a server use a key pair without a Secret.
func (c *Certificate) Use(pair *tls.Certificate) { c.pair.Store(pair) }
