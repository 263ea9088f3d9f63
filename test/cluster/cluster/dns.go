package cluster

import (
	"fmt"
	"os"
	"path/filepath"
)

// CoreDNS runs beside the control plane: it needs no image, no pod and no rights of its own, and no rebuild of a pod can
// move it. Nodes and pods reach it as they reach the API server.
const (
	// DNSServer keeps answers for 5 s, as the defaults of CoreDNS's plugins kubernetes and cache say. It keeps the
	// answer that there is no such name, too.
	DNSServer = controlIP4 + ":53"
	// UncachedDNSServer keeps no answers about names of the cluster, as kubeadm configures CoreDNS.
	UncachedDNSServer = controlIP4 + ":5353"
)

// corefile has the controller manager's kubeconfig, which may read all that CoreDNS reads.
const corefile = `.:53 {
	errors
	kubernetes ` + domain + ` {
		kubeconfig %[1]s
	}
	cache 30
}
.:5353 {
	errors
	kubernetes ` + domain + ` {
		kubeconfig %[1]s
	}
}
`

func (c *Cluster) corefile() string { return filepath.Join(stateDir(c.Name), "Corefile") }

func (c *Cluster) writeCorefile() error {
	text := fmt.Sprintf(corefile, filepath.Join(c.pkiDir(), "kcm.kubeconfig"))
	if err := os.WriteFile(c.corefile(), []byte(text), 0o644); err != nil {
		return fmt.Errorf("write Corefile: %w", err)
	}
	return nil
}
