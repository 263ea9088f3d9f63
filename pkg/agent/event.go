package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ReasonForeignNetwork is that of the event on a node whose pods get their addresses from
// another plugin.
const ReasonForeignNetwork = "ForeignNetwork"

// foreignNetwork returns the event. Its name is the same for the same file and time.
func foreignNetwork(node, path string, now time.Time) *corev1.Event {
	at := metav1.NewTime(now)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%s.%x", node, now.UnixNano())},
		// Where kubectl describe looks for a node's events, the UID is its name.
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: node, UID: types.UID(node)},
		Type:           corev1.EventTypeWarning, Reason: ReasonForeignNetwork,
		Message: fmt.Sprintf("%s is the network configuration of this node and does not name %s as its IPAM plugin: its pods get no reservations", path, pluginName),
		Source:  corev1.EventSource{Component: "limpet-agent", Host: node}, FirstTimestamp: at, LastTimestamp: at, Count: 1,
	}
}

// tell sends an event when another network than the agent's began to be used, once.
func (a *Agent) tell(ctx context.Context) error {
	use := a.use.Load()
	if use == nil || *use == a.told {
		return nil
	}
	if use.by == UseOther {
		ctx, cancel := context.WithTimeout(ctx, showWait)
		defer cancel()
		if err := a.world.client.Create(ctx, foreignNetwork(a.Node, filepath.Join(a.ConfDir, use.file), a.Clock.Now())); err != nil {
			return fmt.Errorf("tell of a foreign network: %w", err)
		}
	}
	a.told = *use
	return nil
}

// networkUse is what PlanUse says.
type networkUse struct {
	by   Use
	file string
}

// lookAtNetwork finds out who gives addresses on this node.
func (a *Agent) lookAtNetwork() error {
	files, err := readConfigs(a.ConfDir)
	if err != nil {
		return err
	}
	var is networkUse
	is.by, is.file = PlanUse(files)
	if was := a.use.Swap(&is); was == nil || *was != is {
		a.Log.Info("Network of the node", "ipam", is.by, "file", is.file)
	}
	a.metrics.usedBy(is.by)
	return nil
}
