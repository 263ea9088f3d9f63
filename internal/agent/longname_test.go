package agent_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// TestALongNodeName shows the state of a node whose name has more characters than a label value may
// have. A node whose name begins in the same way keeps its own objects.
func TestALongNodeName(t *testing.T) {
	ns := env.Namespace(t)
	begin := strings.Repeat("ip-10-0-0-1.", 6)
	first, second := newNode(t, begin+"first.example"), newNode(t, begin+"second.example")
	for _, n := range []*node{first, second} {
		n.write(t, filepath.Join(n.ConfDir, "10-net.conflist"), hostLocalList)
		node := testenv.ANode(n.Node).Node
		node.Labels = nil // the kubelet's label with the name of the host is shorter
		env.Create(t, node)
	}
	first.attach(t, ns, "web-0", "u0", first.liveNetNS(), 0)
	second.reserve(t, ns, "web-1", time.Minute, time.Hour)
	first.start(t)
	second.start(t)
	first.apiShows(t, map[string]v1alpha1.IPState{"web-0": v1alpha1.IPAttached})
	second.apiShows(t, map[string]v1alpha1.IPState{"web-1": v1alpha1.IPReserved})
	for _, n := range []*node{first, second} {
		n.reported(t, filepath.Join(n.ConfDir, "10-net.conflist")+
			" is the network configuration of this node and does not name limpet-ipam as its IPAM plugin: its pods get no reservations")
	}
}
