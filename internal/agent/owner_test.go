package agent_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// TestObjectsBelongToTheirNode checks the owner of a node's objects, by which the garbage
// collector deletes them with the Node. When the node joins again, as a Node with another UID,
// the objects are created again.
func TestObjectsBelongToTheirNode(t *testing.T) {
	for name, ownNetwork := range map[string]bool{"owner-chained": false, "owner-own": true} {
		t.Run(name, func(t *testing.T) {
			ns, n := env.Namespace(t), newNode(t, name)
			n.OwnNetwork = ownNetwork
			n.attach(t, ns, "web-0", "u0", n.liveNetNS(), 0)
			n.start(t)
			owned(t, ns, name, "") // the Node does not exist yet

			node := testenv.ANode(name).Node
			env.Create(t, node)
			owned(t, ns, name, node.UID)

			if err := env.Client.Delete(t.Context(), node); err != nil {
				t.Fatal(err)
			}
			for _, o := range objectsOf(t, ns, name) { // the test API server has no garbage collector
				if err := env.Client.Delete(t.Context(), o); client.IgnoreNotFound(err) != nil {
					t.Fatal(err)
				}
			}
			again := testenv.ANode(name).Node
			env.Create(t, again)
			owned(t, ns, name, again.UID)
		})
	}
}

// owned waits until the reservation and the pool of a node belong to the Node with this UID.
func owned(t *testing.T, ns, node string, uid types.UID) {
	t.Helper()
	testenv.Eventually(t, func() error {
		objects := objectsOf(t, ns, node)
		if len(objects) != 2 {
			return fmt.Errorf("got %d objects, want 2", len(objects))
		}
		for _, o := range objects {
			owners := o.GetOwnerReferences()
			switch {
			case uid == "" && len(owners) == 0:
			case len(owners) == 1 && owners[0].Kind == "Node" && owners[0].Name == node && owners[0].UID == uid:
			default:
				return fmt.Errorf("%T has the owners %v, want %q", o, owners, uid)
			}
		}
		return nil
	})
}

// objectsOf lists the API objects of a node.
func objectsOf(t *testing.T, ns, node string) []client.Object {
	t.Helper()
	var ips v1alpha1.IPReservationList
	var pools v1alpha1.NodeIPPoolList
	ours := client.MatchingLabels{v1alpha1.LabelNode: node}
	if err := env.Client.List(t.Context(), &ips, ours, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.List(t.Context(), &pools, ours); err != nil {
		t.Fatal(err)
	}
	var all []client.Object
	for i := range ips.Items {
		all = append(all, &ips.Items[i])
	}
	for i := range pools.Items {
		all = append(all, &pools.Items[i])
	}
	return all
}
