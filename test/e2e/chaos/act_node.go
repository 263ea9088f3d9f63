package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// bound is how long a step of a fault may take.
const bound = 90 * time.Second

// settled is how long the caches of the controller may be behind a change of a node.
const settled = 2 * time.Second

// stateDir is the directory of the state of limpet-ipam on a node, and stateFiles are what verbs write there, apart from
// the marker.
const stateDir = "/var/lib/cni/limpet"

var stateFiles = []string{"limpet.db", "limpet.db.2", "limpet.journal", "limpet.journal.last"}

// kill returns an action that kills a program of a node. The node starts it again.
func kill(program string) action {
	return func(ctx context.Context, r *runner, f Fault, _ *rand.Rand) error {
		_, err := r.bed.Cluster.Exec(ctx, f.Node, "pkill", "-KILL", "-x", program)
		return err
	}
}

// killPlugins kills plugins of a node as they run, many times a second.
func killPlugins(ctx context.Context, r *runner, f Fault, _ *rand.Rand) error {
	_, err := r.bed.Cluster.Exec(ctx, f.Node, "timeout", fmt.Sprintf("%.1f", f.For.Seconds()), "sh", "-c",
		"while :; do pkill -KILL -x 'limpet-ipam|ptp|portmap'; sleep 0.05; done")
	if err != nil && ctx.Err() == nil { // timeout tells by its status that it ended the loop
		return nil
	}
	return err
}

func drain(ctx context.Context, r *runner, f Fault, _ *rand.Rand) error {
	r.keep(func(k *Keeper, now time.Time) { k.Disturb(f.Node, now) })
	_, err := r.bed.Kubectl(ctx, "drain", f.Node, "--ignore-daemonsets", "--pod-selector=chaos=yes", "--timeout=60s")
	return errors.Join(err, r.wait(ctx, f.For), r.settle(ctx, f.Node, func(ctx context.Context) (bool, string) {
		_, err := r.bed.Kubectl(ctx, "uncordon", f.Node)
		return err == nil, fmt.Sprint(err)
	}))
}

func powerLoss(ctx context.Context, r *runner, f Fault, _ *rand.Rand) error {
	return r.withoutPower(ctx, f, func() error { return nil })
}

// takeForDead says of a node without power that it is dead, until it has power again: addresses follow their pods meanwhile.
func takeForDead(ctx context.Context, r *runner, f Fault, _ *rand.Rand) error {
	taint := func(change string) func(context.Context) (bool, string) {
		return func(ctx context.Context) (bool, string) {
			said, err := r.bed.Kubectl(ctx, "taint", "node", f.Node, "--overwrite", corev1.TaintNodeOutOfService+change)
			return err == nil || strings.Contains(said+err.Error(), "not found"), fmt.Sprint(err)
		}
	}
	err := r.withoutPower(ctx, f, func() error {
		ready := r.nodeReady(f.Node)
		silent := func(ctx context.Context) (bool, string) {
			is, why := ready(ctx)
			return !is && strings.HasSuffix(why, "is not Ready"), f.Node + " is Ready"
		}
		return errors.Join(bed.Await(ctx, bound, f.Node+" to be silent", silent), bed.Await(ctx, bound, f.Node+" to be taken for dead", taint("=nodeshutdown:NoExecute")))
	})
	return errors.Join(err, r.settle(ctx, f.Node, taint("-")))
}

// rollBackState puts older files of the state in place of the present ones while the node has no power.
func rollBackState(ctx context.Context, r *runner, f Fault, _ *rand.Rand) error {
	dir := filepath.Join(r.bed.Cluster.Disk(f.Node), stateDir)
	older := map[string][]byte{}
	for _, name := range stateFiles {
		data, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case err == nil:
			older[name] = data
		case !errors.Is(err, os.ErrNotExist): // there is no last journal before the first fold
			return fmt.Errorf("save the state of %s: %w", f.Node, err)
		}
	}
	if err := r.wait(ctx, f.For); err != nil {
		return err
	}
	return r.withoutPower(ctx, f, func() error {
		r.keep(func(k *Keeper, _ time.Time) { k.Forget(f.Node, true) })
		for name, data := range older {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				return fmt.Errorf("roll the state of %s back: %w", f.Node, err)
			}
		}
		return nil
	})
}

// withoutPower cuts a node's power for a while, and does something meanwhile.
func (r *runner) withoutPower(ctx context.Context, f Fault, meanwhile func() error) error {
	r.keep(func(k *Keeper, now time.Time) { k.Disturb(f.Node, now) })
	if err := r.bed.Cluster.PowerOff(f.Node); err != nil {
		return err
	}
	err := errors.Join(meanwhile(), r.wait(ctx, f.For), r.bed.Cluster.PowerOn(f.Node))
	return errors.Join(err, r.settle(ctx, f.Node, r.nodeReady(f.Node)))
}

// cutNetwork drops what the node and its pods receive from other nodes and from the control plane.
const cutNetwork = "add table inet chaos; " +
	"add chain inet chaos in { type filter hook input priority -300 ; policy accept ; }; add rule inet chaos in iifname eth0 drop; " +
	"add chain inet chaos through { type filter hook forward priority -300 ; policy accept ; }; add rule inet chaos through iifname eth0 drop"

// partition cuts a node's network.
func partition(ctx context.Context, r *runner, f Fault, _ *rand.Rand) error {
	r.keep(func(k *Keeper, now time.Time) { k.Disturb(f.Node, now) })
	_, err := r.bed.Cluster.Exec(ctx, f.Node, "nft", cutNetwork)
	_, mended := r.bed.Cluster.Exec(context.WithoutCancel(ctx), f.Node, "true")
	if waited := r.wait(ctx, f.For); err == nil && mended == nil {
		_, mended = r.bed.Cluster.Exec(context.WithoutCancel(ctx), f.Node, "nft", "delete table inet chaos")
		err = waited
	}
	return errors.Join(err, mended, r.settle(ctx, f.Node, r.nodeReady(f.Node)))
}

// damageState writes over a part of a fold or of the journal. Then it does what the runbook says.
func damageState(ctx context.Context, r *runner, f Fault, random *rand.Rand) error {
	r.keep(func(k *Keeper, now time.Time) {
		k.Disturb(f.Node, now)
		k.Forget(f.Node, false)
	})
	file := filepath.Join(stateDir, stateFiles[random.IntN(3)])
	_, err := r.bed.Cluster.Exec(ctx, f.Node, "dd", "if=/dev/urandom", "of="+file, "bs=1024", fmt.Sprintf("seek=%d", random.IntN(24)), "count=1", "conv=notrunc")
	if err != nil {
		return err
	}
	err = r.settle(ctx, f.Node, func(ctx context.Context) (bool, string) {
		said, err := r.bed.Cluster.Exec(ctx, f.Node, plugin, "check", "--repair")
		return err == nil, fmt.Sprintf("%s %v", said, err)
	})
	if err != nil && ctx.Err() == nil {
		r.violate("the state of %s is not mended: %v", f.Node, err)
	}
	return err
}

// settle waits until a node is as before.
func (r *runner) settle(ctx context.Context, node string, well func(context.Context) (bool, string)) error {
	err := bed.Await(ctx, bound, "node "+node+" to be as before", well)
	r.keep(func(k *Keeper, now time.Time) { k.Settle(node, now.Add(settled)) })
	return err
}
