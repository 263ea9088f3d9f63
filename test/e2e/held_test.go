package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// reserved waits until the pod's former node and the API show the addresses as reserved for
// the pod, and returns the deadline.
func reserved(t *testing.T, pod corev1.Pod) time.Time {
	t.Helper()
	node, until := pod.Spec.NodeName, time.Time{}
	await(t, 2*time.Minute, node+" to keep "+ips(pod)+" for "+pod.Name, func(ctx context.Context) (bool, string) {
		h, err := holderOf(ctx, node, pod.Name)
		if err != nil || h.State != "reserved" || strings.Join(h.IPs, ",") != ips(pod) {
			return false, fmt.Sprint(h, err)
		}
		until = h.Deadline
		text, err := shown(ctx, node, pod.Name)
		state, end, _ := strings.Cut(text, " ")
		shownUntil, parseErr := time.Parse(time.RFC3339, end)
		return state == "Reserved" && parseErr == nil && shownUntil.Sub(until).Abs() <= time.Second,
			fmt.Sprintf("reserved until %s, the API shows %q %v", until, text, err)
	})
	return until
}

// attached waits until the pod's node and the API show the addresses as attached to the pod.
func attached(t *testing.T, pod corev1.Pod) {
	t.Helper()
	node := pod.Spec.NodeName
	await(t, time.Minute, pod.Name+" to have "+ips(pod)+" on "+node, func(ctx context.Context) (bool, string) {
		h, err := holderOf(ctx, node, pod.Name)
		if err != nil || h.State != "attached" || strings.Join(h.IPs, ",") != ips(pod) {
			return false, fmt.Sprint(h, err)
		}
		text, err := shown(ctx, node, pod.Name)
		return err == nil && strings.TrimSpace(text) == "Attached", fmt.Sprintf("the API shows %q %v", text, err)
	})
}

// notShown waits until the API shows no addresses of the pod on its former node.
func notShown(t *testing.T, pod corev1.Pod) {
	t.Helper()
	await(t, time.Minute, "nothing to be shown of "+pod.Spec.NodeName, func(ctx context.Context) (bool, string) {
		text, err := shown(ctx, pod.Spec.NodeName, pod.Name)
		pools, poolErr := poolsOf(ctx)
		_, pooled := pools[pod.Spec.NodeName]
		return err == nil && poolErr == nil && text == "" && !pooled, fmt.Sprint(text, err, pools, poolErr)
	})
}

// shown returns state and deadline of the pod's addresses on a node, as the API shows them.
func shown(ctx context.Context, node, pod string) (string, error) {
	all, err := reservations(ctx)
	text := ""
	for _, r := range all {
		if r.Node == node && r.Pod == pod {
			text += r.State + " " + r.Until
		}
	}
	return text, err
}

// shownState returns the state of the pod's addresses on all nodes, as the API shows it.
func shownState(ctx context.Context, pod string) (string, error) {
	all, err := reservations(ctx)
	text := ""
	for _, r := range all {
		if r.Pod == pod {
			text += r.State
		}
	}
	return text, err
}

// reservation is the status of an IPReservation.
type reservation struct{ Node, Pod, State, Until string }

// reservations reads the IPReservations of namespace default. It does not start kubectl: tests ask many times.
func reservations(ctx context.Context) ([]reservation, error) {
	data, err := theBed.Client.CoreV1().RESTClient().Get().AbsPath("/apis/limpet.dev/v1alpha1/namespaces/default/ipreservations").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("list IPReservations: %w", err)
	}
	var decoded struct {
		Items []struct{ Status reservation }
	}
	if err := json.Unmarshal(data, &decoded); err != nil {
		return nil, fmt.Errorf("decode IPReservations: %w: %s", err, data)
	}
	var all []reservation
	for _, r := range decoded.Items {
		all = append(all, r.Status)
	}
	return all, nil
}

// holderOf returns the entry of a pod in limpet-ipam list; the zero holder without one.
func holderOf(ctx context.Context, node, pod string) (holder, error) {
	held, err := heldOn(ctx, node)
	for _, h := range held {
		if h.Pod == pod {
			return h, err
		}
	}
	return holder{}, err
}

// holder is an entry of limpet-ipam list.
type holder struct {
	Namespace, Pod, State      string
	IPs                        []string
	RetainSeconds, LeftSeconds int
	Deadline                   time.Time // of a reservation
}

func heldOn(ctx context.Context, node string) ([]holder, error) {
	out, err := theBed.Cluster.Exec(ctx, node, tool, "list", "-o", "json")
	if err != nil {
		return nil, err
	}
	var held []holder
	if err := json.Unmarshal(out, &held); err != nil {
		return nil, fmt.Errorf("decode list of %s: %w: %s", node, err, out)
	}
	return held, nil
}

// pool is the sum of the NodeIPPools of a node.
type pool struct {
	Node               string
	Attached, Reserved int
}

func poolsOf(ctx context.Context) (map[string]pool, error) {
	data, err := theBed.Client.CoreV1().RESTClient().Get().AbsPath("/apis/limpet.dev/v1alpha1/nodeippools").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var decoded struct{ Items []struct{ Status pool } }
	err = json.Unmarshal(data, &decoded)
	pools := map[string]pool{}
	for _, p := range decoded.Items {
		sum := pools[p.Status.Node] // of all networks of the node
		pools[p.Status.Node] = pool{Node: p.Status.Node, Attached: sum.Attached + p.Status.Attached, Reserved: sum.Reserved + p.Status.Reserved}
	}
	return pools, err
}
