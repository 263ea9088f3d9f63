package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// plugin is limpet-ipam on a node.
const plugin = "/opt/cni/bin/limpet-ipam"

// replacePlugins puts a directory with the plugins of others in the place of that with all plugins, as a package does.
const replacePlugins = "cp -a /opt/cni/bin /opt/cni/new && rm -f /opt/cni/new/*limpet* && rm -rf /opt/cni/bin && mv /opt/cni/new /opt/cni/bin"

// replaceState puts an empty directory in the place of that of the state.
const replaceState = "rm -rf /var/lib/cni/limpet && mkdir /var/lib/cni/limpet"

// Ways in which a plugin gets damaged: by another file, or by a write into it, which waits until no verb runs.
var damages = []string{
	"head -c 1000 /dev/urandom >/opt/cni/bin/.other && chmod 755 /opt/cni/bin/.other && mv /opt/cni/bin/.other " + plugin,
	"until dd if=/dev/urandom of=" + plugin + " bs=1000 count=1 conv=notrunc; do :; done",
	"until truncate --size=1000 " + plugin + "; do :; done",
}

// damagePlugin damages the plugin of a node. The agent repairs it.
func damagePlugin(ctx context.Context, r *runner, f Fault, random *rand.Rand) error {
	r.keep(func(k *Keeper, now time.Time) { k.Disturb(f.Node, now) })
	return r.onHost(ctx, f.Node, damages[random.IntN(len(damages))], r.pluginRuns(f.Node))
}

// replacePluginDirectory replaces the directory of the plugins. The agent ends, and the next one installs the plugin there.
func replacePluginDirectory(ctx context.Context, r *runner, f Fault, _ *rand.Rand) error {
	r.keep(func(k *Keeper, now time.Time) { k.Disturb(f.Node, now) })
	return r.onHost(ctx, f.Node, replacePlugins, r.pluginRuns(f.Node))
}

// replaceStateDirectory replaces the directory of the state. Verbs build a new state there from what the node knows, and
// the next agent reads it.
func replaceStateDirectory(ctx context.Context, r *runner, f Fault, _ *rand.Rand) error {
	r.keep(func(k *Keeper, now time.Time) {
		k.Disturb(f.Node, now)
		k.Forget(f.Node, false)
	})
	return r.onHost(ctx, f.Node, replaceState, r.agentStarted(f.Node, time.Now().Truncate(time.Second)))
}

// onHost changes files of a node as other programs do, and waits until Limpet has put them right.
func (r *runner) onHost(ctx context.Context, node, script string, well func(context.Context) (bool, string)) error {
	if said, err := r.bed.Cluster.Exec(ctx, node, "timeout", "60", "sh", "-ec", script); err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	err := r.settle(ctx, node, well)
	if err != nil && ctx.Err() == nil {
		r.violate("%s is not put right after %q: %v", node, script, err)
	}
	return err
}

// pluginRuns reports whether the plugin of a node can be run.
func (r *runner) pluginRuns(node string) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		said, err := r.bed.Cluster.Exec(ctx, node, plugin, "version")
		return err == nil, fmt.Sprintf("%.200s %v", said, err)
	}
}

// agentStarted reports whether a node has an agent that is Ready and started at a time or later.
func (r *runner) agentStarted(node string, since time.Time) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		list, err := r.bed.Client.CoreV1().Pods(bed.System).List(ctx, metav1.ListOptions{
			LabelSelector: "app.kubernetes.io/name=limpet-agent", FieldSelector: "spec.nodeName=" + node,
		})
		if err != nil {
			return false, err.Error()
		}
		said := errors.New("no agent")
		for _, p := range list.Items {
			for _, c := range p.Status.ContainerStatuses {
				if c.Ready && startedAt(c).Compare(since) >= 0 {
					return true, ""
				}
				said = fmt.Errorf("%s is ready: %t, and started at %s", p.Name, c.Ready, startedAt(c))
			}
		}
		return false, said.Error()
	}
}

// startedAt returns when a container that runs was started.
func startedAt(c corev1.ContainerStatus) time.Time {
	if c.State.Running == nil {
		return time.Time{}
	}
	return c.State.Running.StartedAt.Time
}
